"""Compare gdpo_core with the advantage code of released training frameworks; `make parity` installs these and runs
it.
"""
