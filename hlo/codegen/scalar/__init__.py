"""Operations on single elements of every element type, as LLVM IR."""
