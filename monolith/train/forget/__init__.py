"""`monolith forget`: ids out of a run, its files, its exports and its servers."""

from monolith.train.forget.forget import ForgetPlaces, ForgetReport, forget

__all__ = ["ForgetReport", "ForgetPlaces", "forget"]
