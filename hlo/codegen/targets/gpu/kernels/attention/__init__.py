"""Attention: rows of one product become weights in registers, with which rows of V are added up."""
