"""The types that any model may hold besides those that skops trusts: reviewed, and shipped by us.

Each is of scikit-learn's own, or NumPy's; loading one runs no code but that which sets attributes,
and what its methods do is what they do in any program. Compiled types are not in the list: what
stands for them is (_stored.py). A type that takes code from elsewhere (functions, callables of a
user's) stays harmless here, since these are types and are asked for by their own names.
"""

from __future__ import annotations

_STORED = "StoredTree StoredPredictor StoredNeighbours StoredSpline StoredSparse StoredBirch"
_KERNELS = (
    "ConstantKernel Product Sum Exponentiation RBF Matern RationalQuadratic ExpSineSquared "
    "DotProduct WhiteKernel CompoundKernel PairwiseKernel Hyperparameter"
)
_SCORES = "f_classif f_regression f_oneway r_regression chi2"

TRUSTED: dict[str, str] = {
    "opgraft.sklearn._stored": _STORED,
    # Functions of numbers alone.
    "numpy": "mean median dtype",
    "sklearn.feature_selection._univariate_selection": _SCORES,
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
    "sklearn.metrics._classification": "balanced_accuracy_score accuracy_score f1_score",
    "sklearn.metrics._regression": "r2_score",
    "sklearn.cluster._kmeans": "_kmeans_single_lloyd _kmeans_single_elkan",
    # Holders of fitted numbers.
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.cluster._bisect_k_means": "_BisectingTree",
    "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels": _KERNELS,
    "sklearn.multiclass": "_ConstantPredictor",
    "sklearn.utils._bunch": "Bunch",
    "sklearn._loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    # What remains of the fitting, and no method for new data uses.
    "sklearn.metrics._scorer": "_Scorer _CurveScorer _PassthroughScorer",
    "sklearn.model_selection._split": (
        "KFold StratifiedKFold GroupKFold ShuffleSplit StratifiedShuffleSplit LeaveOneOut"
    ),
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}

NAMES = frozenset(f"{module}.{name}" for module, names in TRUSTED.items() for name in names.split())
