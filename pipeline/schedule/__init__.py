"""Replays of a log under a scheduling policy with given predictions: arrays in, arrays out."""
