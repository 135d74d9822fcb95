"""The names that we reviewed and that any model may hold, in addition to those that skops trusts.

Most belong to scikit-learn or NumPy. Loading one only sets attributes, and its methods are safe to
call. Compiled types are not in the list; the types that replace them in files are
(_compiled_objects.py). A type that calls other code, such as `functools.partial`, is safe here:
that code needs to be allowed by its own name. A partial of `os.system` asks for `os.system`.
"""

from __future__ import annotations

_STORED = "StoredTree StoredPredictor StoredNeighbours StoredSpline StoredSparse StoredBirch"
_KERNELS = (
    "ConstantKernel Product Sum Exponentiation RBF Matern RationalQuadratic ExpSineSquared "
    "DotProduct WhiteKernel CompoundKernel PairwiseKernel Hyperparameter"
)
_SCORES = "f_classif f_regression f_oneway r_regression chi2"
_OF_CLASSES = (
    "accuracy_score balanced_accuracy_score brier_score_loss cohen_kappa_score d2_log_loss_score "
    "f1_score fbeta_score hamming_loss hinge_loss jaccard_score log_loss matthews_corrcoef "
    "precision_score recall_score zero_one_loss"
)
_OF_VALUES = (
    "d2_absolute_error_score d2_pinball_score d2_tweedie_score explained_variance_score max_error "
    "mean_absolute_error mean_absolute_percentage_error mean_gamma_deviance mean_pinball_loss "
    "mean_poisson_deviance mean_squared_error mean_squared_log_error mean_tweedie_deviance "
    "median_absolute_error r2_score root_mean_squared_error root_mean_squared_log_error"
)
_OF_RANKS = (
    "average_precision_score coverage_error dcg_score label_ranking_average_precision_score "
    "label_ranking_loss ndcg_score roc_auc_score top_k_accuracy_score"
)
_OF_CLUSTERS = (
    "adjusted_mutual_info_score adjusted_rand_score completeness_score fowlkes_mallows_score "
    "homogeneity_score mutual_info_score normalized_mutual_info_score rand_score v_measure_score"
)
_OF_PAIRS = (
    "chi2_kernel cosine_distances cosine_similarity euclidean_distances laplacian_kernel "
    "linear_kernel manhattan_distances nan_euclidean_distances polynomial_kernel rbf_kernel "
    "sigmoid_kernel"
)
_SCALES = (
    "add_dummy_feature binarize maxabs_scale minmax_scale normalize power_transform "
    "quantile_transform robust_scale scale"
)

TRUSTED: dict[str, str] = {
    "opgraft.sklearn._stored": _STORED,
    # Functions that only compute with numbers.
    "numpy": "mean median dtype",
    "sklearn.feature_selection._univariate_selection": _SCORES,
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
    "sklearn.metrics._classification": _OF_CLASSES,
    "sklearn.metrics._regression": _OF_VALUES,
    "sklearn.metrics._ranking": _OF_RANKS,
    "sklearn.metrics.cluster._supervised": _OF_CLUSTERS,
    "sklearn.metrics.pairwise": _OF_PAIRS,
    "sklearn.preprocessing._data": _SCALES,
    "sklearn.utils.validation": "check_array",
    "sklearn.cluster._kmeans": "_kmeans_single_lloyd _kmeans_single_elkan",
    # Containers of other objects, each of which must be allowed by its own name.
    "collections": "OrderedDict",
    "functools": "partial",
    # Holders of fitted numbers.
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.cluster._bisect_k_means": "_BisectingTree",
    "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels": _KERNELS,
    "sklearn.multiclass": "_ConstantPredictor",
    "sklearn.utils._bunch": "Bunch",
    "sklearn._loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    # Left over from fitting; no method for new data uses these.
    "sklearn.metrics._scorer": "_Scorer _CurveScorer _PassthroughScorer",
    "sklearn.model_selection._split": (
        "KFold StratifiedKFold GroupKFold ShuffleSplit StratifiedShuffleSplit LeaveOneOut"
    ),
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}

NAMES = frozenset(f"{module}.{name}" for module, names in TRUSTED.items() for name in names.split())
