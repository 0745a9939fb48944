"""Trainers of models of clicks in other systems; each module that serves is one program."""
