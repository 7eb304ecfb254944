"""Operations without operands: parameter, constant, iota."""
