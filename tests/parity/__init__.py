"""Hold gdpo_core against the advantage code of released training frameworks; `make parity` installs and runs it."""
