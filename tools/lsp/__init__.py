"""`hlo-lsp`: a language server for HLO text."""
