"""Operations in which several devices meet: fewer, smaller and later ones."""
