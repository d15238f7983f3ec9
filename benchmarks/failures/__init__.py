"""Failures of training runs, each many times: what is killed, stopped, cut off, damaged or left behind."""
