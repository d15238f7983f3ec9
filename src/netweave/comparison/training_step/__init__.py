"""The first updates of two trainings: gradients, moving statistics, and the rule of the optimizer.

Nets that predict alike may still learn differently. Their weights are paired by values, so neither names nor
layouts need to agree; what an optimizer did is recomputed from the gradients by formula.
"""

from netweave.comparison.training_step.comparison import TrainingComparison, compare_training
from netweave.comparison.training_step.record import Cut, TrainingRecord

__all__ = ["Cut", "TrainingComparison", "TrainingRecord", "compare_training"]
