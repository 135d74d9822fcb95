"""The estimators of scikit-learn whose methods for new data we have read.

skops trusts every estimator of the installed scikit-learn. Compiled code relies on some of their
attributes, and we know which only for these estimators (_owners.py, _indices.py). A host must allow
an estimator of a newer scikit-learn by name. After a review, and a run of
tests/sklearn/hostile_estimators.py, it is added to this list.
"""

from __future__ import annotations

ESTIMATORS = frozenset(
    """
    _BinMapper
    ARDRegression AdaBoostClassifier AdaBoostRegressor AdditiveChi2Sampler AffinityPropagation
    AgglomerativeClustering BaggingClassifier BaggingRegressor BayesianGaussianMixture BayesianRidge
    BernoulliNB BernoulliRBM Binarizer Birch BisectingKMeans CCA CalibratedClassifierCV
    CategoricalNB ClassicalMDS ClassifierChain ColumnTransformer ComplementNB CountVectorizer DBSCAN
    DecisionTreeClassifier DecisionTreeRegressor DictVectorizer DictionaryLearning DummyClassifier
    DummyRegressor ElasticNet ElasticNetCV EllipticEnvelope EmpiricalCovariance ExtraTreeClassifier
    ExtraTreeRegressor ExtraTreesClassifier ExtraTreesRegressor FactorAnalysis FastICA
    FeatureAgglomeration FeatureHasher FeatureUnion FixedThresholdClassifier FrozenEstimator
    FunctionTransformer GammaRegressor GaussianMixture GaussianNB GaussianProcessClassifier
    GaussianProcessRegressor GaussianRandomProjection GenericUnivariateSelect
    GradientBoostingClassifier GradientBoostingRegressor GraphicalLasso GraphicalLassoCV
    GridSearchCV HDBSCAN HalvingGridSearchCV HalvingRandomSearchCV HashingVectorizer
    HistGradientBoostingClassifier HistGradientBoostingRegressor HuberRegressor IncrementalPCA
    IsolationForest Isomap IsotonicRegression IterativeImputer KBinsDiscretizer KMeans KNNImputer
    KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer KernelCenterer KernelDensity
    KernelPCA KernelRidge LabelBinarizer LabelEncoder LabelPropagation LabelSpreading Lars LarsCV
    Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LatentDirichletAllocation LedoitWolf
    LinearDiscriminantAnalysis LinearRegression LinearSVC LinearSVR LocalOutlierFactor
    LocallyLinearEmbedding LogisticRegression LogisticRegressionCV MDS MLPClassifier MLPRegressor
    MaxAbsScaler MeanShift MinCovDet MinMaxScaler MiniBatchDictionaryLearning MiniBatchKMeans
    MiniBatchNMF MiniBatchSparsePCA MissingIndicator MultiLabelBinarizer MultiOutputClassifier
    MultiOutputRegressor MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV
    MultinomialNB NMF NearestCentroid NearestNeighbors NeighborhoodComponentsAnalysis Normalizer
    NuSVC NuSVR Nystroem OAS OPTICS OneClassSVM OneHotEncoder OneVsOneClassifier OneVsRestClassifier
    OrdinalEncoder OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV OutputCodeClassifier PCA
    PLSCanonical PLSRegression PLSSVD PassiveAggressiveClassifier PassiveAggressiveRegressor
    PatchExtractor Perceptron Pipeline PoissonRegressor PolynomialCountSketch PolynomialFeatures
    PowerTransformer QuadraticDiscriminantAnalysis QuantileRegressor QuantileTransformer
    RANSACRegressor RBFSampler RFE RFECV RadiusNeighborsClassifier RadiusNeighborsRegressor
    RadiusNeighborsTransformer RandomForestClassifier RandomForestRegressor RandomTreesEmbedding
    RandomizedSearchCV RegressorChain Ridge RidgeCV RidgeClassifier RidgeClassifierCV RobustScaler
    SGDClassifier SGDOneClassSVM SGDRegressor SVC SVR SelectFdr SelectFpr SelectFromModel SelectFwe
    SelectKBest SelectPercentile SelfTrainingClassifier SequentialFeatureSelector ShrunkCovariance
    SimpleImputer SkewedChi2Sampler SparseCoder SparsePCA SparseRandomProjection
    SpectralBiclustering SpectralClustering SpectralCoclustering SpectralEmbedding SplineTransformer
    StackingClassifier StackingRegressor StandardScaler TSNE TargetEncoder TfidfTransformer
    TfidfVectorizer TheilSenRegressor TransformedTargetRegressor TruncatedSVD
    TunedThresholdClassifierCV TweedieRegressor VarianceThreshold VotingClassifier VotingRegressor
    """.split()
)
