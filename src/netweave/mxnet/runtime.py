"""``mx.runtime``: what this build can do."""

from __future__ import annotations

from netweave.mxnet.context import num_gpus


class Features:
    """Names of features, and whether they are there."""

    def is_enabled(self, feature_name: str) -> bool:
        """Return whether a feature is there: CUDA and CUDNN with a GPU, OPENCV."""
        return feature_name.upper() == "OPENCV" or (
            feature_name.upper() in {"CUDA", "CUDNN"} and num_gpus() > 0
        )
