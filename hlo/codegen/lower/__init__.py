"""Operations expressed by simpler ones, and one caller for each computation."""
