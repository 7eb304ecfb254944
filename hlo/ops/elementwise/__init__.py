"""Operations on corresponding elements: arithmetic, comparison, selection, conversion."""
