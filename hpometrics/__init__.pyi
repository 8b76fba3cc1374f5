from typing import Final

from .backends.objective import ListObjective as ListObjective
from .backends.optuna.objective import OptunaObjective as OptunaObjective
from .backends.optuna.pruners import DominancePruner as DominancePruner
from .backends.optuna.reporter import OptunaReporter as OptunaReporter
from .backends.ray.objective import RayObjective as RayObjective
from .backends.ray.own_tuner import best_result as best_result, tune_config as tune_config
from .backends.ray.reporter import RayReporter as RayReporter, TuneReporter as TuneReporter
from .backends.ray.searcher_sampler import SearcherSampler as SearcherSampler
from .direction import MAXIMIZE as MAXIMIZE, MINIMIZE as MINIMIZE, Direction as Direction
from .engines.engine import Engine as Engine
from .engines.engine_params import EngineParams as EngineParams
from .engines.evaluation import Evaluation as Evaluation
from .engines.evaluator import MetricEvaluator as MetricEvaluator
from .exceptions import (
    AdditionError as AdditionError,
    ConfigError as ConfigError,
    DirectionError as DirectionError,
    EngineError as EngineError,
    EngineParamsError as EngineParamsError,
    HpometricsError as HpometricsError,
    LoggerError as LoggerError,
    MetricInputError as MetricInputError,
    MetricNameError as MetricNameError,
    MissingExtraError as MissingExtraError,
    NewerFormatError as NewerFormatError,
    NoFiniteValueError as NoFiniteValueError,
    NonFiniteError as NonFiniteError,
    NotKeptError as NotKeptError,
    RankError as RankError,
    RecordError as RecordError,
    RegistrationError as RegistrationError,
    RunError as RunError,
    SpaceError as SpaceError,
    StateError as StateError,
    UnknownMetricError as UnknownMetricError,
)
from .loggers.registry import EpochLogger as EpochLogger, Standing as Standing
from .loggers.table import nice_report as nice_report
from .metrics.additive import (
    Additive as Additive,
    AverageMetric as AverageMetric,
    DistinctMetric as DistinctMetric,
    FixedMetric as FixedMetric,
    GlobalAverageMetric as GlobalAverageMetric,
    GlobalFixedMetric as GlobalFixedMetric,
    GlobalSumMetric as GlobalSumMetric,
    GlobalTimerMetric as GlobalTimerMetric,
    MacroAverageMetric as MacroAverageMetric,
    SumMetric as SumMetric,
    TimerMetric as TimerMetric,
)
from .metrics.as_metric import as_metric as as_metric
from .metrics.batch import Outputs as Outputs
from .metrics.collection import MetricCollection as MetricCollection
from .metrics.features import (
    AUDIO as AUDIO,
    BINARY as BINARY,
    BOXES as BOXES,
    CATEGORY as CATEGORY,
    CLUSTERS as CLUSTERS,
    IMAGE as IMAGE,
    LOGITS as LOGITS,
    MASK as MASK,
    NUMBER as NUMBER,
    PREDICTIONS as PREDICTIONS,
    PROBABILITIES as PROBABILITIES,
    RANKING as RANKING,
    SEQUENCE as SEQUENCE,
    SET as SET,
    TEXT as TEXT,
    TIMESERIES as TIMESERIES,
    VECTOR as VECTOR,
    Audio as Audio,
    Binary as Binary,
    Boxes as Boxes,
    Category as Category,
    Clusters as Clusters,
    Image as Image,
    InputType as InputType,
    Mask as Mask,
    Number as Number,
    OutputFeature as OutputFeature,
    Ranking as Ranking,
    Sequence as Sequence,
    Set as Set,
    Text as Text,
    Timeseries as Timeseries,
    Vector as Vector,
)
from .metrics.metric import LudwigMetric as LudwigMetric, MeanMetric as MeanMetric, Metric as Metric
from .metrics.registry.index import (
    MetricEntry as MetricEntry,
    all_entries as all_entries,
    metric_names as metric_names,
)
from .metrics.registry.lookup import find_metric as find_metric
from .metrics.registry.ludwig_names import Objective as Objective, ObjectiveError as ObjectiveError
from .metrics.registry.names import MetricName as MetricName
from .metrics.registry.register import get_metric as get_metric, register_metric as register_metric
from .metrics.reports import (
    Metrics as Metrics,
    Teacher as Teacher,
    aggregate_named_reports as aggregate_named_reports,
    aggregate_unnamed_reports as aggregate_unnamed_reports,
)
from .metrics.retrieval.base import (
    BaseMetric as BaseMetric,
    ListMetric as ListMetric,
    RatingMetric as RatingMetric,
    TopKMetric as TopKMetric,
    UserAverageTopKMetric as UserAverageTopKMetric,
)
from .metrics.retrieval.blocks import Block as Block, MetricBlock as MetricBlock
from .metrics.retrieval.candidates import Candidates as Candidates, sample_candidates as sample_candidates
from .metrics.retrieval.comparison import Comparison as Comparison
from .metrics.retrieval.per_user import PerUser as PerUser, strata as strata
from .metrics.statistics.statistic import Statistic as Statistic
from .records.program_log import log as log
from .records.trial_record import (
    EpochRecord as EpochRecord,
    TrialRecord as TrialRecord,
    TrialState as TrialState,
)
from .results.compare.models import compare as compare
from .results.sweep_result import SweepResult as SweepResult, load_best as load_best
from .run.metric_spec import Reported as Reported
from .run.reporter import ListReporter as ListReporter, Reporter as Reporter
from .run.run import Run as Run
from .run.spec import RunSpec as RunSpec, engine as engine
from .run.trial import run_trial as run_trial
from .runner.python_sweep import Sweep as Sweep
from .selection.model_comparison import ModelComparison as ModelComparison
from .selection.rules import At as At
from .selection.selection import Best as Best
from .space.dimensions import (
    Choice as Choice,
    Float as Float,
    Int as Int,
    Normal as Normal,
    Value as Value,
)
from .space.space import Space as Space

__all__: list[str]
__version__: str

# The names of the built-in metrics, written by `make index`.

ABSOLUTE_BIAS: Final = "absolute_bias"
ABSOLUTE_OVERCONFIDENCE: Final = "absolute_overconfidence"
ACCURACY: Final = "accuracy"
ACCURACY_MAX: Final = "accuracy_max"
ACCURACY_MICRO: Final = "accuracy"
ACLT: Final = "aclt"
ADAPTIVE_ECE: Final = "adaptive_ece"
ADJUSTED_MUTUAL_INFORMATION: Final = "adjusted_mutual_information"
ADJUSTED_R2: Final = "adjusted_r2"
ADJUSTED_RAND: Final = "adjusted_rand"
ALPHA_DCG: Final = "alpha_dcg"
ALPHA_NDCG: Final = "alpha_ndcg"
APLT: Final = "aplt"
ARNIQA: Final = "arniqa"
ARP: Final = "arp"
AUC: Final = "auc"
AVERAGE_PRECISION: Final = "average_precision"
AVERAGE_PRECISION_BINNED: Final = "average_precision_binned"
BALANCED_ACCURACY: Final = "balanced_accuracy"
BALANCED_ACCURACY_MAX: Final = "balanced_accuracy_max"
BERT_SCORE: Final = "bert_score"
BEST_THRESHOLD: Final = "best_threshold"
BIAS: Final = "bias"
BIAS_DISPARITY_BD: Final = "bias_disparity_bd"
BIAS_DISPARITY_BR: Final = "bias_disparity_br"
BIAS_DISPARITY_BS: Final = "bias_disparity_bs"
BIAS_DISPARITY_TABLE: Final = "bias_disparity_table"
BINARY_CROSS_ENTROPY: Final = "binary_cross_entropy"
BINARY_WEIGHTED_CROSS_ENTROPY: Final = "binary_weighted_cross_entropy"
BITS_PER_TOKEN: Final = "bits_per_token"
BLEU: Final = "bleu"
BLEU_1: Final = "bleu_1"
BLEU_2: Final = "bleu_2"
BLEU_3: Final = "bleu_3"
BLEU_4: Final = "bleu_4"
BLEU_SCORE: Final = "bleu_score"
BPM: Final = "bpm"
BPREF: Final = "bpref"
BRIER: Final = "brier"
BRIER_RELIABILITY: Final = "brier_reliability"
BRIER_RESOLUTION: Final = "brier_resolution"
BRIER_UNCERTAINTY: Final = "brier_uncertainty"
C_SI_SNR: Final = "c_si_snr"
CALINSKI_HARABASZ: Final = "calinski_harabasz"
CATALOG_COVERAGE: Final = "catalog_coverage"
CER: Final = "cer"
CHAR_ERROR_RATE: Final = "cer"
CHRF: Final = "chrf"
CIOU: Final = "ciou"
CLASSWISE_ECE: Final = "classwise_ece"
CLIP_IQA: Final = "clip_iqa"
CLIP_SCORE: Final = "clip_score"
CLUSTER_ACCURACY: Final = "cluster_accuracy"
COHEN_KAPPA: Final = "cohen_kappa"
COMPAT: Final = "compat"
COMPLETENESS: Final = "completeness"
CONCORDANCE: Final = "concordance"
CONFIDENCE: Final = "confidence"
CONFUSION_MATRIX: Final = "confusion_matrix"
CORN: Final = "corn"
COSINE_EMBEDDING: Final = "cosine_embedding"
COSINE_SIMILARITY: Final = "cosine_similarity"
COVERAGE_ERROR: Final = "coverage_error"
CRAMERS_V: Final = "cramers_v"
CRPS: Final = "crps"
CSI: Final = "csi"
CTC: Final = "ctc"
D2_ABSOLUTE_ERROR: Final = "d2_absolute_error"
D2_BRIER: Final = "d2_brier"
D2_LOG_LOSS: Final = "d2_log_loss"
D2_PINBALL: Final = "d2_pinball"
D2_TWEEDIE: Final = "d2_tweedie"
DAVIES_BOULDIN: Final = "davies_bouldin"
DCG: Final = "dcg"
DET_CURVE: Final = "det_curve"
DICE: Final = "dice"
DICE_SCORE: Final = "dice_score"
DIOU: Final = "diou"
DISTS: Final = "dists"
DNSMOS: Final = "dnsmos"
DUNN: Final = "dunn"
ECE: Final = "ece"
EDIT_DISTANCE: Final = "edit_distance"
EED: Final = "eed"
EER: Final = "eer"
EFD: Final = "efd"
EPC: Final = "epc"
ERGAS: Final = "ergas"
ERR: Final = "err"
ERR_IA: Final = "err_ia"
EUC_DISTANCE: Final = "euc_distance"
EXPLAINED_VARIANCE: Final = "explained_variance"
F1: Final = "f1"
F1_MAX: Final = "f1_max"
F_SCORE: Final = "f_score"
FAIRNESS: Final = "fairness"
FAIRSEQ_BLEU: Final = "fairseq_bleu"
FALL_OUT: Final = "fall_out"
FALSE_DISCOVERY_RATE: Final = "false_discovery_rate"
FALSE_NEGATIVE_RATE: Final = "false_negative_rate"
FALSE_OMISSION_RATE: Final = "false_omission_rate"
FALSE_POSITIVE_RATE: Final = "false_positive_rate"
FBETA: Final = "fbeta"
FBETA_MAX: Final = "fbeta_max"
FID: Final = "fid"
FLEISS_KAPPA: Final = "fleiss_kappa"
FOCAL: Final = "focal"
FOWLKES_MALLOWS: Final = "fowlkes_mallows"
FPR_AT_TPR: Final = "fpr_at_tpr"
GAMMA_DEVIANCE: Final = "gamma_deviance"
GAUC: Final = "gauc"
GAUSSIAN_CRPS: Final = "gaussian_crps"
GAUSSIAN_NLL: Final = "gaussian_nll"
GEN_N_TOKS: Final = "gen_n_toks"
GENERALIZED_DICE: Final = "generalized_dice"
GEOMETRIC_MEAN: Final = "geometric_mean"
GINI: Final = "gini"
GIOU: Final = "giou"
HAMMING: Final = "hamming"
HAUSDORFF: Final = "hausdorff"
HINGE: Final = "hinge"
HINGE_EMBEDDING: Final = "hinge_embedding"
HIT_RATE: Final = "hit_rate"
HITS: Final = "hits"
HITS_AT_K: Final = "hits"
HOMOGENEITY: Final = "homogeneity"
HUBER: Final = "huber"
HYPERVOLUME: Final = "hypervolume"
IMAGE_DICE: Final = "image_dice"
IMAGE_IOU: Final = "image_iou"
INCEPTION_SCORE: Final = "inception_score"
INFAP: Final = "infap"
INFOLM: Final = "infolm"
INFORMEDNESS: Final = "informedness"
INSQ: Final = "insq"
INST: Final = "inst"
INTERDISTINCT_1: Final = "interdistinct_1"
INTERDISTINCT_2: Final = "interdistinct_2"
INTERPOLATED_PRECISION: Final = "interpolated_precision"
INTERVAL_COVERAGE: Final = "interval_coverage"
INTERVAL_COVERAGE_ERROR: Final = "interval_coverage_error"
INTERVAL_SCORE: Final = "interval_score"
INTERVAL_WIDTH: Final = "interval_width"
INTRA_LIST_DIVERSITY: Final = "intra_list_diversity"
INTRADISTINCT_1: Final = "intradistinct_1"
INTRADISTINCT_2: Final = "intradistinct_2"
IOU: Final = "iou"
IPS_DCG: Final = "ips_dcg"
IPS_RECALL: Final = "ips_recall"
ITEM_COVERAGE: Final = "item_coverage"
ITEM_MAD_RANKING: Final = "item_mad_ranking"
ITEM_MAD_RATING: Final = "item_mad_rating"
JACCARD: Final = "jaccard"
JACCARD_MAX: Final = "jaccard_max"
JGA: Final = "jga"
JGA_EMPTY: Final = "jga_empty"
JGA_NOEMPTY: Final = "jga_noempty"
JS_DIVERGENCE: Final = "js_divergence"
JUDGED: Final = "judged"
KENDALL: Final = "kendall"
KID: Final = "kid"
KL_DIVERGENCE: Final = "kl_divergence"
KS: Final = "ks"
KS_CALIBRATION_ERROR: Final = "ks_calibration_error"
LABEL_ACCURACY: Final = "label_accuracy"
LABEL_RANKING_AVERAGE_PRECISION: Final = "label_ranking_average_precision"
LABEL_RANKING_LOSS: Final = "label_ranking_loss"
LAST_ACCURACY: Final = "last_accuracy"
LAUC: Final = "lauc"
LOG_AUC: Final = "log_auc"
LOG_COSH: Final = "log_cosh"
LOG_LOSS: Final = "log_loss"
LOSS: Final = "loss"
LPIPS: Final = "lpips"
MAE: Final = "mae"
MAP: Final = "map"
MAP_IA: Final = "map_ia"
MAPE: Final = "mape"
MAR: Final = "mar"
MARGIN_RANKING: Final = "margin_ranking"
MARKEDNESS: Final = "markedness"
MASE: Final = "mase"
MAX_ERROR: Final = "max_error"
MCC: Final = "mcc"
MCC_MAX: Final = "mcc_max"
MCE: Final = "mce"
MEAN_ABSOLUTE_ERROR: Final = "mae"
MEAN_ABSOLUTE_PERCENTAGE_ERROR: Final = "mape"
MEAN_IOU: Final = "mean_iou"
MEAN_PINBALL: Final = "mean_pinball"
MEAN_PIXEL_ACCURACY: Final = "mean_pixel_accuracy"
MEAN_SQUARED_ERROR: Final = "mse"
MEDIAN_ABSOLUTE_ERROR: Final = "median_absolute_error"
MER: Final = "mer"
MIFID: Final = "mifid"
MINKOWSKI: Final = "minkowski"
MODIFIED_PANOPTIC_QUALITY: Final = "modified_panoptic_quality"
MRR: Final = "mrr"
MS_SSIM: Final = "ms_ssim"
MSE: Final = "mse"
MSIS: Final = "msis"
MSLE: Final = "msle"
MULTI_MARGIN: Final = "multi_margin"
MULTILABEL_MARGIN: Final = "multilabel_margin"
MUTUAL_INFORMATION: Final = "mutual_information"
NDCG: Final = "ndcg"
NEGATIVE_LIKELIHOOD_RATIO: Final = "negative_likelihood_ratio"
NEGATIVE_PREDICTIVE_VALUE: Final = "negative_predictive_value"
NERR10: Final = "nerr10"
NERR11: Final = "nerr11"
NERR8: Final = "nerr8"
NERR9: Final = "nerr9"
NERR_IA: Final = "nerr_ia"
NEXT_TOKEN_LOG_LOSS: Final = "next_token_log_loss"
NEXT_TOKEN_PERPLEXITY: Final = "next_token_perplexity"
NISQA: Final = "nisqa"
NNRBP: Final = "nnrbp"
NORMALIZED_MUTUAL_INFORMATION: Final = "normalized_mutual_information"
NRBP: Final = "nrbp"
NRMSE: Final = "nrmse"
NUM_HITS: Final = "num_hits"
NUM_RELEVANT: Final = "num_relevant"
NUM_RETRIEVED: Final = "num_retrieved"
OVERCONFIDENCE: Final = "overconfidence"
P_IA: Final = "p_ia"
PAIRWISE_ACCURACY: Final = "pairwise_accuracy"
PANOPTIC_QUALITY: Final = "panoptic_quality"
PARTIAL_AUC: Final = "partial_auc"
PEARSON: Final = "pearson"
PEARSONS_CONTINGENCY: Final = "pearsons_contingency"
PERPLEXITY: Final = "perplexity"
PESQ: Final = "pesq"
PINBALL: Final = "pinball"
PIT: Final = "pit"
PIXEL_ACCURACY: Final = "pixel_accuracy"
POISSON_DEVIANCE: Final = "poisson_deviance"
POISSON_NLL: Final = "poisson_nll"
POP_REO: Final = "pop_reo"
POP_RSP: Final = "pop_rsp"
POSITIVE_LIKELIHOOD_RATIO: Final = "positive_likelihood_ratio"
PRECISION: Final = "precision"
PRECISION_AT_RECALL: Final = "precision_at_recall"
PRECISION_RECALL_CURVE: Final = "precision_recall_curve"
PROCRUSTES: Final = "procrustes"
PSNR: Final = "psnr"
PSNRB: Final = "psnrb"
PURITY: Final = "purity"
QNR: Final = "qnr"
R2: Final = "r2"
R_PRECISION: Final = "r_precision"
RAE: Final = "rae"
RAND: Final = "rand"
RANK: Final = "rank"
RASE: Final = "rase"
RBP: Final = "rbp"
RECALL: Final = "recall"
RECALL_AT_PRECISION: Final = "recall_at_precision"
RELIABILITY_CURVE: Final = "reliability_curve"
REO: Final = "reo"
RMS_CALIBRATION_ERROR: Final = "rms_calibration_error"
RMSE: Final = "rmse"
RMSE_SW: Final = "rmse_sw"
RMSLE: Final = "rmsle"
RMSPE: Final = "rmspe"
RMSSE: Final = "rmsse"
ROC_AUC: Final = "roc_auc"
ROC_AUC_BINNED: Final = "roc_auc_binned"
ROC_AUC_OVO: Final = "roc_auc_ovo"
ROC_CURVE: Final = "roc_curve"
ROOT_MEAN_SQUARED_ERROR: Final = "rmse"
ROOT_MEAN_SQUARED_PERCENTAGE_ERROR: Final = "rmspe"
ROUGE_1: Final = "rouge_1"
ROUGE_2: Final = "rouge_2"
ROUGE_L: Final = "rouge_l"
ROUGE_LSUM: Final = "rouge_lsum"
RSE: Final = "rse"
RSP: Final = "rsp"
SA_SDR: Final = "sa_sdr"
SAM: Final = "sam"
SCC: Final = "scc"
SDCG: Final = "sdcg"
SDR: Final = "sdr"
SELF_INFORMATION: Final = "self_information"
SENSITIVITY_AT_SPECIFICITY: Final = "sensitivity_at_specificity"
SEQUENCE_ACCURACY: Final = "sequence_accuracy"
SEQUENCE_SOFTMAX_CROSS_ENTROPY: Final = "log_loss"
SERENDIPITY: Final = "serendipity"
SET_AP: Final = "set_ap"
SET_F: Final = "set_f"
SET_PRECISION: Final = "set_precision"
SET_RECALL: Final = "set_recall"
SHANNON_ENTROPY: Final = "shannon_entropy"
SI_SDR: Final = "si_sdr"
SI_SNR: Final = "si_snr"
SIGMOID_CROSS_ENTROPY: Final = "binary_cross_entropy"
SLOT_F1: Final = "slot_f1"
SLOT_P: Final = "slot_p"
SLOT_R: Final = "slot_r"
SMAPE: Final = "smape"
SMOOTH_L1: Final = "smooth_l1"
SNIPS_DCG: Final = "snips_dcg"
SNIPS_RECALL: Final = "snips_recall"
SNR: Final = "snr"
SOFTMAX_CROSS_ENTROPY: Final = "softmax_cross_entropy"
SPATIAL_DISTORTION: Final = "spatial_distortion"
SPEARMAN: Final = "spearman"
SPECIFICITY: Final = "specificity"
SPECIFICITY_AT_SENSITIVITY: Final = "specificity_at_sensitivity"
SPECTRAL_DISTORTION: Final = "spectral_distortion"
SQUAD_EM: Final = "squad_em"
SQUAD_F1: Final = "squad_f1"
SRECALL: Final = "srecall"
SRMR: Final = "srmr"
SSIM: Final = "ssim"
STAT_SCORES: Final = "stat_scores"
STOI: Final = "stoi"
TAIL_PERCENTAGE: Final = "tail_percentage"
TER: Final = "ter"
THEILS_U: Final = "theils_u"
TOKEN_ACCURACY: Final = "token_accuracy"
TOKEN_ERROR_RATE: Final = "token_error_rate"
TOKEN_F1: Final = "token_f1"
TOKEN_PRECISION: Final = "token_precision"
TOKEN_RECALL: Final = "token_recall"
TOTAL_VARIATION: Final = "total_variation"
TRIPLET_MARGIN: Final = "triplet_margin"
TSCHUPROWS_T: Final = "tschuprows_t"
TWEEDIE_DEVIANCE: Final = "tweedie_deviance"
UNSUP_LOSS: Final = "unsup_loss"
UQI: Final = "uqi"
USER_COVERAGE: Final = "user_coverage"
USER_COVERAGE_AT_N: Final = "user_coverage_at_n"
USER_MAD_RANKING: Final = "user_mad_ranking"
USER_MAD_RATING: Final = "user_mad_rating"
V_MEASURE: Final = "v_measure"
VARIATION_OF_INFORMATION: Final = "variation_of_information"
VIF: Final = "vif"
VMAF: Final = "vmaf"
WAPE: Final = "wape"
WER: Final = "wer"
WIL: Final = "wil"
WIP: Final = "wip"
WORD_ERROR_RATE: Final = "wer"
ZERO_ONE_LOSS: Final = "zero_one_loss"
