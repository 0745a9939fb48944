"""`monolith forget`: ids out of a run, its files, its exports and its servers."""

from monolith.train.forget.forget import ForgetReport, Places, forget

__all__ = ["ForgetReport", "Places", "forget"]
