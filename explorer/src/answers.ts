// Written by scripts/make_ui_types.py from the endpoints of src/zoolens/faces/ui/resources: do not edit.

/** The version of the explorer, and its store. */
export interface About {
  version: string;
  /** The file name or address of the store. */
  store: string;
  /** How many evaluations the store has. */
  runs: number;
}

/** Something that needs a look; `page` and `rest` are the address of the page that shows it. */
export interface Alarm {
  level: "high" | "medium" | "low" | "info";
  sentence: string;
  page: string;
  rest: string;
  /** A digest of what it is about. Three failures and three other ones have the same sentence, and another digest. */
  about: string;
}

export interface AuditJob {
  /** None: all. */
  zoos?: (string)[];
  /** Such as resnet50 or 'vgg*'; none: all. */
  architectures?: (string)[];
}

/** One audit, without its findings. */
export interface AuditSummary {
  job: Job;
  /** The result in one sentence. */
  summary: string;
  /** The same with its coverage, and an outcome where it is not known whether names stand for one network each. */
  judged: VerdictItem;
  /** Which zoos were left out, and why; the first of `total_notes`. */
  notes: (string)[];
  total_notes: number;
  architectures: number;
  /** How many findings there are of each, the gravest first. */
  severities: (SeverityCount)[];
}

/** A model by its newest run in the runtime in which it is best. */
export interface BestModel {
  run: RunItem;
  size: Figure | null;
}

/** The best models of one dataset by the metric of one task, the best first. */
export interface BestOnDataset {
  dataset: string;
  task: string;
  /** The metric in words. */
  title: string;
  inputs: number;
  runs: number;
  models: number;
  rows: (BestModel)[];
  /** Which others may be as good, as far as their intervals tell. */
  note: string;
}

/** A box in pixels of the image. `style` is 0 to 15, the same for the same class; from 8 on its line is dashed. */
export interface BoxItem {
  left: number;
  top: number;
  width: number;
  height: number;
  name: string;
  score: number | null;
  style: number;
}

/** `run` is null where nobody ran the model on this kind; `figure` is null where the run does not have it, and `reason` says why. */
export interface CellItem {
  run: string | null;
  figure: Figure | null;
  runs: number;
  reason: string;
  /** Why a newer run failed, which has no figure therefore; empty: there is none. */
  failed_since: string;
  /** How it compares with the kind that it is held against; null: there is nothing to compare it with. */
  outcome: CellOutcome | null;
  /** Whether it is held against a kind of equal hardware, so that the software makes the difference. */
  same_hardware: boolean;
  /** The difference in short: 1.31 × the time. */
  change: string;
  /** The difference, and what differs between the two kinds. */
  sentence: string;
}

/** How a cell compares with the one that it is held against. */
export type CellOutcome = "worse" | "better" | "same" | "unclear" | "unknown";

/** A sentence about what is new; `run` and `before` are ids of the two runs that it is about, or empty. */
export interface Change {
  sentence: string;
  run: string;
  before: string;
}

/** What is new since `since`. `days` is 0 where nothing is. */
export interface Changes {
  days: number;
  since: string;
  runs: number;
  failed: number;
  /** Models that had not been run before. */
  models: number;
  /** So many runs were held against the run before them, of the same model and runtime. */
  compared: number;
  lines: (Change)[];
  /** Figures that moved and are not among `lines`. */
  more: number;
}

/** What there is to choose from, and the answer of a query over it. */
export interface ChoiceAnswer {
  query: string;
  /** Why the query was not answered; what is shown then is the whole index. */
  problem: Problem | null;
  verdict: string;
  notes: (string)[];
  dataset: string;
  inputs: number;
  /** Models in runtimes that were measured. */
  rows: number;
  /** Models that were never run, of which only claims and what their files say is known. */
  never_run: number;
  x: ShownRespect | null;
  y: ShownRespect | null;
  size: ShownRespect | null;
  /** What rows can be compared by. */
  metrics: (MetricChoice)[];
  title: string;
  chart: Record<string, unknown>;
  funnel: Record<string, unknown> | null;
  misses: Record<string, unknown> | null;
  /** What EXPLAIN says. */
  explanation: (string)[];
}

/** One row of the index. */
export interface ChosenRow {
  key: string;
  ref: string;
  /** Its id in the store, or "" where it was never run. */
  run: string;
  runtime: string;
  standing: string;
  /** `x` and `y` are the figures with their intervals in words, `x_value` and `y_value` in the store's units. */
  x: string;
  y: string;
  x_value: number;
  y_value: number;
  size: string;
  equal: string;
  front: boolean;
  front_with_size: boolean;
  beaten: boolean;
  measured: boolean;
  why_not: string;
}

export interface ChosenRows {
  total: number;
  offset: number;
  rows: (ChosenRow)[];
}

/** A claim, and the runs that measured the same. */
export interface ClaimItem {
  metric: string;
  words: string;
  dataset: string;
  source: string;
  measured: (ClaimedRun)[];
}

export interface ClaimedRun {
  run: string;
  stack: string;
  dataset: string;
  words: string;
  judgement: string;
  sentence: string;
}

/** `inputs` of this class, and how many inputs were `answered` with it; null where an answer is no class. */
export interface ClassItem {
  number: number;
  name: string;
  inputs: number | null;
  answered: number | null;
  /** The recall of the class, or what else its task tells of each class; null where it is not stored. */
  figure: Figure | null;
}

/** Classes that are a label or an answer of at least one input, or that have a figure of their own: `total` of them, of which no more than 2,000 are given. */
export interface ClassList {
  /** Why there are none. */
  reason: string;
  /** Which figure the classes have. */
  metric: string;
  /** Whether the scores of the answers were kept, so that inputs can be sorted by them. */
  scored: boolean;
  /** Whether the answers are no classes, and each of them has a score of its own that inputs can be sorted by. */
  judged: boolean;
  /** Whether it is a language model, whose texts are sorted by bits per byte. */
  foresees: boolean;
  total: number;
  rows: (ClassItem)[];
}

/** The numbers of two classes, as `label` and `answer` of a list of predictions take them. */
export interface ClassPair {
  label: number;
  answer: number;
}

/** A class of a map, with its share of the pixels in words. From style 8 on its pixels are striped. */
export interface ClassShare {
  name: string;
  words: string;
  style: number;
}

export interface CompareJob {
  /** MODEL@RUNTIME, or a stored run. */
  a: string;
  b: string;
}

/** A class of which the two runs have different figures. */
export interface ComparedClass {
  name: string;
  /** The inputs of this class; null where an input may hold several classes. */
  inputs: number | null;
  a: string;
  b: string;
  change: string;
  /** The p-value of the exact McNemar test on the inputs of this class alone; empty where none was made. */
  p: string;
}

/** B − A on the same inputs, by the metric that judges the task, with its 95 % interval. */
export interface ComparedDifference {
  /** In words. */
  metric: string;
  /** Not of errors: where B has more of them, A is better. */
  more_is_better: boolean;
  value: number;
  low: number;
  high: number;
  /** Points for shares; empty where the metric is no share. */
  unit: string;
  /** Whether the interval leaves 0 out. */
  clear: boolean;
  /** The p-value of the test that was made; empty where none was. */
  p: string;
}

/** One figure of both runs; null where one of them lacks it. */
export interface ComparedFigure {
  metric: string;
  scope: string;
  /** The metric in words, and `part` likewise what the figure is of. */
  title: string;
  part: string;
  a: Figure | null;
  b: Figure | null;
  /** How much B is above A, in words. */
  change: string;
  /** Whether the intervals of two figures that are no shares overlap; null where it is not known, and for shares, which are of the same inputs and are therefore judged in pairs. */
  overlap: boolean | null;
}

/** One of the two runs of a comparison. */
export interface ComparedRun {
  id: string;
  created: string;
  model: string;
  stack: string;
  /** The precision in effect; empty where it is unknown. */
  precision: string;
}

/** What `zoolens compare` says of two runs. */
export interface Comparison {
  a: ComparedRun;
  b: ComparedRun;
  dataset: string;
  inputs: number;
  /** How many answers differ, and whether the change of accuracy is more than chance. */
  verdict: string;
  /** The verdict with its coverage; null where both are one run. */
  judged: VerdictItem | null;
  tiles: (TileItem)[];
  /** What the comparison rests on that nobody has checked, or leaves out. */
  cautions: (string)[];
  notes: (string)[];
  /** The likely cause; empty where nothing differs, or nothing that was recorded explains it. */
  cause: string;
  /** Whether the cause is in the files of two models, which a job "compare" opens. */
  cause_in_files: boolean;
  /** Whether one model answers differently in two environments; a job "diverge" finds the layer. */
  parts_by_stack: boolean;
  /** Whether both have answers that can be listed side by side. */
  answered: boolean;
  labelled: boolean;
  /** Inputs with different answers; null where the answers are no classes. */
  differing: number | null;
  /** null where nothing judges both runs on the same inputs. */
  difference: ComparedDifference | null;
  /** Every input of classifiers, by who was right; without labels, by whether the answers are the same. */
  outcomes: (OutcomeCount)[];
  /** The few figures that decide between two runs. */
  key_figures: (ComparedFigure)[];
  figures: (ComparedFigure)[];
  figures_chart: Record<string, unknown> | null;
  flips_chart: Record<string, unknown> | null;
  /** Which figure of each class `classes` have: the recall, the AP. */
  class_metric: string;
  classes: (ComparedClass)[];
  /** How many classes changed, of which `classes` are the clearest. */
  changed_classes: number;
  environment: (StackChange)[];
}

/** `text` takes the place of q[start:end]. */
export interface CompletionItem {
  text: string;
  kind: string;
  start: number;
  end: number;
}

export interface CompletionList {
  items: (CompletionItem)[];
}

/** How much of a measure something costs, and which share of the whole network that is. */
export interface CostWords {
  words: string;
  share: string;
  /** The share as a level from 1 to 7. */
  heat: number;
}

/** One dataset with evaluations. `name` is what `data` and `dataset` of other questions take. */
export interface DatasetItem {
  name: string;
  /** What models do on it; the task of its newest run first. */
  tasks: (string)[];
  inputs: number;
  runs: number;
  models: number;
  newest: string;
}

/** The dataset that was used last comes first. */
export interface DatasetList {
  total: number;
  rows: (DatasetItem)[];
}

export interface DemoJob {
  task?: "classification" | "detection";
}

export interface DivergeJob {
  /** MODEL@RUNTIME, or a stored run. */
  a: string;
  b: string;
  /** None: that of the stored runs. */
  data?: string | null;
  limit?: number | null;
}

/** One of the two sides: a model in a runtime. */
export interface DivergedSide {
  title: string;
  runtime: string;
  version: string;
  precision: string;
  /** How many values inside the model can be read and found in its graph. */
  layers: number;
}

/** Why the two part. */
export interface DivergenceCause {
  kind: string;
  sentence: string;
  layer: string;
  /** Whether the difference vanished with the change. */
  proved: boolean;
  /** What was changed and what became of the difference; empty where nothing was tried. */
  proof: string;
}

/** What `zoolens diverge` found. */
export interface DivergenceFacts {
  job: Job;
  a: DivergedSide;
  b: DivergedSide;
  runs: (string)[];
  data: string;
  inputs: number;
  verdict: string;
  /** The verdict with its coverage. */
  judged: VerdictItem;
  /** Whether the two are known to agree. */
  agrees: boolean;
  flips: number;
  /** The first layer whose difference exceeds rounding; empty if there is none. */
  first: string;
  sentences: (string)[];
  causes: (DivergenceCause)[];
  /** The difference of the two, layer by layer; null where no layers could be compared. */
  growth: Record<string, unknown> | null;
  floor: string;
  layers: WordTable;
}

/** What is drawn on an input, or of it. */
export interface DrawnItem {
  boxes: (BoxItem)[];
  /** How many boxes there are beside those. */
  more_boxes: number;
  /** Whether there is a map of classes at /runs/{run}/drawings/{index}. */
  overlay: boolean;
  /** The classes of the map, the largest first. */
  legend: (ClassShare)[];
  /** Words of the input that are marked; null where the answer is not about words. */
  marks: (MarkItem)[] | null;
  /** Words of the input that answer a question; of what is right, any of them is. */
  texts: (string)[];
  /** Stretches of a sound; null where the answer is not about moments. */
  spans: (SpanItem)[] | null;
}

/** One verification with its evidence, and the others of the same endpoint. */
export interface EndpointDetail {
  verification: VerificationItem;
  verdict: VerdictItem;
  tiles: (TileItem)[];
  /** How each model stands that was considered. */
  models: WordTable;
  evidence: Record<string, unknown>;
  /** Whether the evidence against other models is known, too. */
  evidence_known: boolean;
  /** null where the endpoint told no log-probabilities. */
  distances: Record<string, unknown> | null;
  /** What the endpoint told, and what it did not. */
  told: (Fact)[];
  /** What it states of its model, which nobody has checked. */
  stated: (Fact)[];
  /** What the verdict does not say. */
  limits: (string)[];
  settings: (Fact)[];
  /** The newest first, of `history_total`. */
  history: (VerificationItem)[];
  history_total: number;
  /** null where it was asked only once. */
  verdicts: Record<string, unknown> | null;
}

/** An endpoint with the newest verdict on it, of `verifications` in all. */
export interface EndpointItem {
  newest: VerificationItem;
  verifications: number;
}

export interface EndpointList {
  total: number;
  offset: number;
  rows: (EndpointItem)[];
  /** Whether there may be older verifications, which were not counted. */
  older: boolean;
}

export interface EvaluateJob {
  models: (string)[];
  data?: string;
  /** None: every runtime that can open the model. */
  runtimes?: (string)[];
  /** Use this many inputs. */
  limit?: number | null;
  /** Measure all again, as a new run. */
  fresh?: boolean;
}

export interface ExplainJob {
  study: string;
  trial: string;
  /** Two sides; none: those with the largest difference. */
  frameworks?: (string)[];
  /** Seeds; as many fresh ones verify. */
  replicates?: number;
}

/** Which semantics make the gap of a trial. */
export interface ExplanationItem {
  study: string;
  trial: string;
  runs_in: string;
  a: string;
  b: string;
  gap: string;
  shares: (ShareItem)[];
  chart: Record<string, unknown> | null;
  /** All that `zoolens crosstrain explain` said. */
  lines: (string)[];
}

export interface ExportJob {
  /** Ids of reports. */
  reports?: (string)[];
  /** Ids of runs. */
  runs?: (string)[];
  /** Pairs of ids of runs. */
  compare?: ([string, string])[];
  /** Ids of traces. */
  traces?: (string)[];
}

export interface Facet {
  name: string;
  values: (FacetValue)[];
}

/** How many rows have this value, counted among those that fit all other facets and the search. */
export interface FacetValue {
  value: string;
  count: number;
}

/** One fact about what a run was measured with. */
export interface Fact {
  name: string;
  value: string;
}

export interface FailedStage {
  stage: string;
  error: string;
}

/** `words` is the value with its unit, and marks where it is a claim or was disturbed; `interval` is the value with the interval in the same unit. `value` is null where it could not be had, and `reason` says why. */
export interface Figure {
  metric: string;
  scope: string;
  /** The metric in words, such as "median latency", and `part` likewise what the figure is of: "batches of 8". */
  title: string;
  part: string;
  value: number | null;
  low: number | null;
  high: number | null;
  unit: string;
  n: number | null;
  provenance: Provenance;
  words: string;
  interval: string;
  reason: string;
}

/** One thing that is not as it is said to be. */
export interface FindingItem {
  id: string;
  severity: "high" | "medium" | "low" | "info";
  rule: string;
  architecture: string;
  title: string;
  /** The models that it is about, the odd one first; at most the first 50 of `total_models`. */
  models: (string)[];
  total_models: number;
  evidence: (string)[];
  total_evidence: number;
  /** Two models whose networks the finding is about, the odd one first; empty where it is about something else. */
  networks: (string)[];
  fix: string;
}

/** `total` findings fit, of `all`; the gravest come first. */
export interface FindingPage {
  total: number;
  all: number;
  offset: number;
  rows: (FindingItem)[];
  facets: (Facet)[];
}

/** A job that a command gave to another machine. */
export interface FleetJob {
  id: string;
  title: string;
  command: string;
  model: string;
  dataset: string;
  state: zoolens__base__store__jobs__JobState;
  /** The machine that does it or did it last; empty: none has begun it. */
  where: string;
  given: string;
  /** How long it runs or ran; empty: it did not begin. */
  seconds: string;
  attempts: number;
  given_by: string;
  runs: (string)[];
  error: string;
  cancelled_by: string;
}

/** Jobs that wait or run, those that run first; and the newest of those that ended. `counts`: by state, of all. */
export interface FleetJobs {
  open: (FleetJob)[];
  ended: (FleetJob)[];
  counts: Record<string, number>;
}

/** One job with what it said, oldest first, and why attempts of it ended. */
export interface FleetLog {
  job: FleetJob;
  attempts: (string)[];
  lines: (SaidLine)[];
}

export interface FlipPage {
  total: number;
  offset: number;
  rows: (FlippedInput)[];
}

/** An input that the two answer differently. */
export interface FlippedInput {
  /** Its place, by which /divergences/{id}/inputs knows it; null of comparisons by earlier versions. Classes are numbers; null where there is none. */
  index: number | null;
  input: string;
  label: number | null;
  a: number | null;
  b: number | null;
  /** The maximum difference of the two answers. */
  apart: string;
}

/** What lies in a folder, and what was left out with the reason. */
export interface FolderFound {
  models: (FoundModel)[];
  data: (FoundDataset)[];
  left_out: (string)[];
}

/** `data` is what a job takes; `reason`: why it is taken for a dataset. */
export interface FoundDataset {
  data: string;
  reason: string;
  labelled: boolean;
}

/** `path` is what a job takes; `described`: a manifest says what it takes and answers. */
export interface FoundModel {
  path: string;
  name: string;
  described: boolean;
}

/** Rows of models, `total` of them, and columns of kinds, of which there are `all_kinds`. */
export interface Grid {
  datasets: (GridDataset)[];
  dataset: string;
  runtime: string;
  metric: string;
  kinds: (KindItem)[];
  all_kinds: (KindItem)[];
  total: number;
  offset: number;
  rows: (GridLine)[];
  /** What is worse than on another kind of equal hardware, or than on the kind `against`, among these rows. */
  regressions: (string)[];
  /** Cells of these rows without a figure. */
  unmeasured: number;
}

/** A dataset, and the runtimes in which models were evaluated on it. */
export interface GridDataset {
  name: string;
  runtimes: (RuntimeRuns)[];
}

export interface GridLine {
  model: string;
  /** What the model's page is found by. */
  ref: string;
  options: string;
  /** One for each of `kinds`. */
  cells: (CellItem)[];
}

export interface HistoryAnswer {
  runs: number;
  others: number;
  title: string;
  chart: Record<string, unknown>;
}

/** Something that has a page, whose address is `page`, `rest` and `data`. */
export interface Hit {
  kind: "model" | "run" | "dataset" | "study" | "trace" | "service" | "report" | "job";
  title: string;
  detail: string;
  page: string;
  rest: string;
  /** The dataset that is chosen with it; empty: as it is. */
  data: string;
}

export interface Hits {
  rows: (Hit)[];
}

/** `runs` evaluations in all, of the chosen datasets. */
export interface Home {
  runs: number;
  datasets: number;
  best: (BestOnDataset)[];
  newest: (RunItem)[];
  changes: Changes;
  alarms: (Alarm)[];
  services: (ServiceSession)[];
  jobs: (Job)[];
}

/** One input of a run. */
export interface InputItem {
  index: number;
  /** What the dataset calls it now. */
  name: string;
  /** What it is, with its first numbers where it is no image. */
  words: string;
  /** Whether there is a picture at /runs/{run}/inputs/{index}. */
  picture: boolean;
  /** `width` and `height` are those of the image in its own pixels, in which boxes are given; 0: it is none. */
  width: number;
  height: number;
  /** The words of a text that its dataset splits into words, which marks of an answer count. */
  tokens: (string)[];
  /** How many words there are beside those. */
  more_tokens: number;
  /** The two texts of a pair. */
  texts: (string)[];
  /** Of a sound: the largest sample of each of equal stretches, between 0 and 1. */
  wave: (number)[];
  /** How long a sound is. */
  seconds: number;
}

export type InputState = "ready" | "opening" | "unavailable";

/** One job. */
export interface Job {
  id: string;
  kind: string;
  title: string;
  command: string;
  state: zoolens__faces__ui__jobs__folder__JobState;
  created: string;
  ended: string | null;
  /** The exit status of the command; null if it was never started or lost. */
  code: number | null;
  /** Why it failed, in the words of the command. */
  error: string;
  /** The ids of runs that it made or met. */
  runs: (string)[];
}

/** What the job says, in the sentences of its command. */
export interface JobFinding {
  sentences: (string)[];
}

export interface JobList {
  total: number;
  rows: (Job)[];
}

/** What a running job does: `done` of `total` steps of a stage, and the last message. `total` is null where nobody knows it. */
export interface JobProgress {
  title: string;
  stage: string;
  done: number;
  total: number | null;
  unit: string;
  message: string;
}

/** A column of the grid. */
export interface KindItem {
  id: string;
  machine: string;
  software: string;
  /** What else sets it apart from the other kinds. */
  apart: (string)[];
  /** Machines of this kind that are there now. */
  agents: (string)[];
  /** How many rows of the whole grid were run on it. */
  models: number;
}

export interface LatencyChart {
  title: string;
  chart: Record<string, unknown>;
}

/** The newest evaluation of a model, and what it found. */
export interface LatestRun {
  id: string;
  created: string;
  dataset: string;
  runtime: string;
  /** The figure that says how good its answers are: top-1 of classes, AP of boxes. */
  judged: Figure | null;
  /** The median latency at batch size 1, never of larger batches. */
  latency_p50: Figure | null;
}

/** One layer of a trace. */
export interface LayerItem {
  number: number;
  /** How many layers enclose it. */
  depth: number;
  name: string;
  kind: string;
  time: Figure;
  /** The share of the time of all outermost layers together. */
  share: number;
  share_words: string;
  kernel: string;
  precision: string;
  output: string;
}

export interface LayerPage {
  total: number;
  offset: number;
  rows: (LayerItem)[];
}

export interface LinePage {
  total: number;
  offset: number;
  rows: (string)[];
}

/** A layer of A and the one of B beside it; empty where a side has none. */
export interface LinePair {
  a: string;
  b: string;
  source_a: string;
  source_b: string;
  state: State;
  /** The numbers of the differences that concern it. */
  marks: (number)[];
}

/** How far the zoos have been listed. */
export interface ListingState {
  models: number;
  /** Whether no zoo is being listed now. */
  complete: boolean;
}

/** How far two models agree on what they were given. */
export interface LiveAgreement {
  /** What is told: the mean overlap of boxes, the share of pixels with the same class. */
  name: string;
  value: number | null;
  words: string;
  /** Why it is not known. */
  reason: string;
}

/** `label` is the name of the class, or its number where nobody names it; `named` tells the two apart. */
export interface LiveClass {
  label: string;
  named: boolean;
  probability: number;
  words: string;
}

export interface LiveQuery {
  /** zoo:name, as the page of models has it. */
  model: string;
  /** Empty: the one that reads the fewest other formats. */
  runtime?: string;
  /** How many classes to give. */
  most?: number;
}

/** What a model says of an image: `classes` of a classifier, else `words` and what is `drawn`. `took` is the time of this one call, with the way to the process of the model: it measures nothing. */
export interface LiveResult {
  model: string;
  runtime: string;
  task: string;
  classes: (LiveClass)[];
  words: string;
  drawn: DrawnItem | null;
  /** The map of classes as a transparent PNG in base64; empty where there is none. */
  overlay: string;
  /** Names the answer for /live/agreement; empty where it cannot be compared. */
  key: string;
  took: string;
  opened: boolean;
  image: string;
  /** How the image was resized for the model. */
  fitting: string;
  /** The dataset whose names the classes have, where the manifest names none; otherwise empty. */
  named_by: string;
  /** `width` and `height` are those of the image, in whose pixels boxes are given. */
  width: number;
  height: number;
}

/** What became of one text, and what the model says of it: `classes`, in `vector` its first numbers, or `words` and what is `drawn` upon the words of `split`. */
export interface LiveText {
  /** How many tokens the model was given. */
  tokens: number;
  /** Whether the text has more tokens than the model takes. */
  cut: boolean;
  /** How many of them the tokenizer does not know. */
  unknown: number | null;
  pieces: (string)[];
  classes: (LiveClass)[];
  vector: string;
  length: string;
  words: string;
  drawn: DrawnItem | null;
  /** The words of the text, which marks count; a text is split at spaces and at signs. */
  split: (string)[];
  /** How many words there are beside those. */
  more_words: number;
  /** Names the answer for /live/agreement; empty where it cannot be compared. */
  key: string;
}

/** What a model says of several texts. */
export interface LiveTextResult {
  model: string;
  runtime: string;
  task: string;
  /** Whether the model takes two texts together: `texts` then has one answer to both. */
  pair: boolean;
  texts: (LiveText)[];
  most_tokens: number;
  /** How many numbers each vector has; 0 for classifiers. */
  numbers: number;
  /** The cosine similarity of the vectors of each two texts, where angles mean something. */
  alike: ((string)[])[];
  took: string;
  opened: boolean;
}

/** One agent: a machine, as it is offered. */
export interface MachineItem {
  id: string;
  name: string;
  /** A digest: machines of one kind would make the same run. */
  kind: string;
  /** Lost: it gave no sign of life within its lease. */
  state: "idle" | "works" | "lost";
  doing: (string)[];
  /** How long ago it gave a sign of life, by the clock of the database. */
  seen: string;
  /** Whether what it published can be read. If not, the fields below are empty. */
  readable: boolean;
  machine: string;
  cores: number | null;
  memory: string;
  gpus: (string)[];
  free_disk: string;
  load: number | null;
  /** Requirements of the environment that it is offered with; empty: that of the agent itself. */
  environment: string;
  runtimes: (string)[];
  /** Its id in a Ray cluster; empty: it is in none. */
  node: string;
  zoolens: string;
}

/** `lost` of all machines gave no sign of life within their lease. `kinds`: how many there are among the others. */
export interface MachineList {
  total: number;
  offset: number;
  rows: (MachineItem)[];
  lost: number;
  working: number;
  kinds: number;
}

/** Words from `first` to `last`, counted from 0, and what they are said to be. */
export interface MarkItem {
  first: number;
  last: number;
  name: string;
  style: number;
}

export interface Measured {
  figures: (MeasuredFigure)[];
}

/** One figure of the model on one dataset, the environments with the newest runs first, of `stacks_in_all`. */
export interface MeasuredFigure {
  metric: string;
  title: string;
  dataset: string;
  /** Runs on other datasets, which are left out. */
  others: number;
  stacks: (MeasuredStack)[];
  stacks_in_all: number;
}

/** The figure of one run. */
export interface MeasuredPoint {
  run: string;
  created: string;
  figure: Figure;
  /** Whether the run was of the content that the name has now. */
  current: boolean;
}

/** One environment: its newest runs, the oldest of them first, of `runs` in all. */
export interface MeasuredStack {
  stack: string;
  runs: number;
  points: (MeasuredPoint)[];
}

/** `name` is what `x`, `y` and `size` take, `title` the same in words. */
export interface MetricChoice {
  name: string;
  title: string;
}

/** Everything that is known about one model. */
export interface ModelDetail {
  ref: string;
  zoo: string;
  name: string;
  version: string;
  listed: boolean;
  description: string;
  task: string;
  licence: string;
  formats: (string)[];
  weights: string;
  params_words: string;
  bytes_words: string;
  runs: number;
  runtimes: (string)[];
  datasets: (string)[];
  /** The lines of the manifest. */
  manifest: (string)[];
  claims: (ClaimItem)[];
  claims_chart: Record<string, unknown> | null;
  namesakes: (Namesake)[];
  /** A query for models that can take its place. */
  replacement: string;
}

/** One model. */
export interface ModelItem {
  ref: string;
  zoo: string;
  name: string;
  version: string;
  /** Whether a zoo of this machine has the model; otherwise only the store knows it. */
  listed: boolean;
  task: string;
  formats: (string)[];
  licence: string;
  weights: string;
  /** `params`, `bytes` and `claimed_top1` are what its source says. */
  params: number | null;
  params_words: string;
  bytes: number | null;
  bytes_words: string;
  claimed_top1: number | null;
  claimed_top1_words: string;
  description: string;
  runs: number;
  runtimes: (string)[];
  datasets: (string)[];
  /** Runs in equal stretches of time from `since` until `until`. */
  activity: (number)[];
  latest: LatestRun | null;
}

/** `total` models fit, of `all` there are. */
export interface ModelPage {
  total: number;
  all: number;
  offset: number;
  rows: (ModelItem)[];
  facets: (Facet)[];
  since: string | null;
  until: string | null;
  /** Whether every zoo was listed; otherwise ask again. */
  complete: boolean;
  /** What could not be listed, and why. */
  notes: (string)[];
}

/** Another model that is called the same, or is of the same architecture by its name. */
export interface Namesake {
  ref: string;
  runs: number;
  params_words: string;
  listed: boolean;
}

/** `costs` have one entry for each of `measures`, null for nothing. */
export interface Network {
  macs_words: string;
  parameters_words: string;
  layers: number;
  /** Operators that are not counted. */
  unknown: (string)[];
  /** Whether the layers inside blocks are given; networks of thousands of layers come without them. */
  whole: boolean;
  measures: (string)[];
  /** What each heat means, from none to the hottest. */
  heats: (string)[];
  stages: (NetworkStage)[];
  chart: Record<string, unknown>;
}

/** A block of layers, or a single layer outside any. */
export interface NetworkBlock {
  title: string;
  shape: string;
  /** How many layers it has, also where none are given. */
  count: number;
  costs: (CostWords | null)[];
  /** Pairs of places in `layers`, whose first is −1 where the value comes from outside the block. */
  lines: ((number)[])[];
  /** The places of layers whose values are used outside. */
  ends: (number)[];
  /** Places of the other blocks of its part whose values it uses, and −1 for values from outside the part. */
  inputs: (number)[];
  layers: (NetworkLayer)[];
}

/** What `zoolens diff` says of two models, and their parts side by side. */
export interface NetworkComparison {
  a: NetworkSide;
  b: NetworkSide;
  /** Whether both networks are known here. */
  compared: boolean;
  same: boolean;
  headline: string;
  /** The headline as a verdict; null where they were not compared. */
  judged: VerdictItem | null;
  /** How many differences there are, of which no more than 200 are given. */
  total: number;
  differences: (NetworkDifference)[];
  /** What stands beside operators that are not understood, which proves nothing. */
  not_proved: (string)[];
  parts: (PartPair)[];
}

/** One thing that differs. */
export interface NetworkDifference {
  number: number;
  cause: string;
  text: string;
  /** The change in multiply-accumulates from A to B. */
  macs_words: string;
  /** The share of the whole gap in multiply-accumulates. */
  share_words: string;
  parameters_words: string;
}

/** The network of a model, as far as it is known. */
export interface NetworkFacts {
  ref: string;
  /** Null where it is not known here; `reason` then says why, and `readable` whether a job can read it. */
  network: Network | null;
  readable: boolean;
  reason: string;
}

export interface NetworkJob {
  model: string;
}

/** One layer, at a row and a column of its block. */
export interface NetworkLayer {
  words: string;
  source: string;
  shape: string;
  row: number;
  column: number;
  costs: (CostWords | null)[];
}

/** Equal blocks behind one another, or one block, or one layer (`single`). */
export interface NetworkPart {
  place: number;
  title: string;
  shape: string;
  single: boolean;
  /** The `place` of every part whose values it uses. */
  inputs: (number)[];
  costs: (CostWords | null)[];
  blocks: (NetworkBlock)[];
}

/** One of the two networks. */
export interface NetworkSide {
  ref: string;
  /** What the sentences call the network. */
  name: string;
  /** Whether the network is known here; otherwise `readable` says whether a job can read it, and `reason` why not. */
  read: boolean;
  readable: boolean;
  reason: string;
  macs_words: string;
  parameters_words: string;
  held: string;
}

export interface NetworkStage {
  name: string;
  layers: number;
  costs: (CostWords | null)[];
  parts: (NetworkPart)[];
}

export interface NewReport {
  title: string;
}

/** One thing that a run found. */
export interface ObservationItem {
  stage: string;
  figure: Figure;
  /** Further facts about the observation, in words. */
  details: (Fact)[];
}

/** Some of the observations of a run. */
export interface ObservationPage {
  total: number;
  offset: number;
  rows: (ObservationItem)[];
  /** How many observations there are of each metric. */
  metrics: (FacetValue)[];
}

/** Models that take an image or a text: those that were measured first, then those whose files are on this machine. */
export interface Offered {
  models: (string)[];
}

export type Outcome = "same" | "different" | "not known";

/** How many inputs ended in one way, such as "only A correct". */
export interface OutcomeCount {
  outcome: "both right" | "only A right" | "only B right" | "both wrong" | "same answer" | "different answers";
  inputs: number;
  share: string;
}

/** A part of A and the one of B beside it. */
export interface PartPair {
  stage: string;
  a: string;
  b: string;
  macs_a: string;
  macs_b: string;
  state: State;
  marks: (number)[];
  /** Whether the lines are those of the first of several blocks, and those of the others read differently. */
  first_only: boolean;
  /** Lines that are not given, because there are too many. */
  left_out: number;
  lines: (LinePair)[];
}

export interface PeaksJob {
  /** None: one for each core. */
  threads?: number | null;
  device?: string;
}

/** What a language model does while it writes: it reads its prompt, or one further token. */
export interface PhaseItem {
  title: string;
  /** One call, with nothing observed below it. */
  time: string;
  /** Of all recorded requests. */
  share: string;
  levels: WordTable;
  /** Its layers by their kind, of which the longest have rows of their own; null where the runtime does not tell them. */
  kinds: WordTable | null;
  notes: (string)[];
}

/** What one run answered. */
export interface PredictedAnswer {
  words: string;
  /** `answer` is the number of the class; null where it answers no classes. */
  answer: number | null;
  score: number | null;
  /** Whether the answer is right; null without a label. */
  right: boolean | null;
  /** The classes with the highest scores, as far as they were kept. */
  best: (ScoredClass)[];
  /** How right the answer is, between 0 and 1, of a task whose truth is no class; null: not known. */
  judged: number | null;
  judged_words: string;
  drawn: DrawnItem | null;
}

/** One input. */
export interface PredictionItem {
  index: number;
  input: string;
  label: number | null;
  /** `truth` is the name of its class, or what else is right in words; empty where the dataset does not say. */
  truth: string;
  ours: PredictedAnswer;
  theirs: PredictedAnswer | null;
  /** `label_score` is the probability that the run gave to it. */
  label_score: number | null;
  label_words: string;
  /** The agreement with the other run, between 0 and 1. */
  agreement: number | null;
  agreement_words: string;
  /** What is right, where that can be drawn. */
  right: DrawnItem | null;
}

/** `total` inputs are listed, of `inputs` that were answered; `unknown` of them stand last, because what they are sorted by is not known. */
export interface PredictionPage {
  run: string;
  other: string;
  total: number;
  inputs: number;
  offset: number;
  unknown: number;
  /** The range of confidence that was asked for, in words. */
  bin: string;
  /** Whether it is a language model, whose texts /runs/{run}/tokens has token by token. */
  foresees: boolean;
  rows: (PredictionItem)[];
}

/** What is wrong with a query; q[start:end] is the part that is meant. */
export interface Problem {
  message: string;
  hint: string;
  start: number;
  end: number;
}

/** Where a number comes from; never absent, never guessed. */
export type Provenance = "measured" | "estimated" | "claimed" | "unavailable";

export interface QueryJob {
  text: string;
}

/** Nothing is asked. */
export interface RefreshQuery {

}

export interface Report {
  id: string;
  version: number;
  title: string;
  created: string;
  changed: string;
  pieces: (ReportPiece)[];
}

/** Something that a page shows: the question that it was the answer to, and the field of the answer. */
export interface ReportAddition {
  id: string;
  /** As the API names it, such as /runs/{run}/confusion. */
  path: string;
  /** What was asked. */
  parameters?: Record<string, unknown>;
  /** A chart or table of the answer, such as charts.0.chart. */
  field: string;
  title?: string;
  /** The address of the page behind the #. */
  page?: string;
}

/** A report as it is to be; `version` is that which was changed. */
export interface ReportChange {
  id: string;
  version: number;
  title: string;
  parts: (ReportPart)[];
}

export interface ReportItem {
  id: string;
  title: string;
  pieces: number;
  created: string;
  changed: string;
}

export interface ReportList {
  total: number;
  offset: number;
  rows: (ReportItem)[];
}

/** A piece of a report as it is to be: the one that has the number `keep` now, or a note. */
export interface ReportPart {
  keep?: number | null;
  note?: string | null;
}

/** A note (`text` is Markdown), a chart or a table, as it was when it was `added`. */
export interface ReportPiece {
  kind: "note" | "chart" | "table";
  text: string;
  title: string;
  caption: string;
  chart: Record<string, unknown> | null;
  table: WordTable | null;
  /** The address of the page that it was taken from; empty where there is none. */
  page: string;
  added: string | null;
}

/** A repetition of the same model on the same dataset in the same environment. */
export interface RunAttempt {
  id: string;
  attempt: number;
  created: string;
}

/** `table` has a row for each bin; its place is the number of the bin. */
export interface RunCalibration {
  reason: string;
  title: string;
  chart: Record<string, unknown> | null;
  table: WordTable | null;
  /** The expected calibration error with its interval. */
  ece: string;
}

/** `pairs` are the rows of `table`, in the same order. */
export interface RunConfusion {
  reason: string;
  title: string;
  chart: Record<string, unknown> | null;
  table: WordTable | null;
  pairs: (ClassPair)[];
}

/** One run with its figures and what it was measured with. */
export interface RunDetail {
  run: RunItem;
  model_fingerprint: string;
  data_fingerprint: string;
  precision: string;
  tiles: (TileItem)[];
  /** Caveats about the figures. */
  notes: (string)[];
  /** What to do about a run that is not finished. */
  advice: string;
  stages: (StageItem)[];
  /** `figures` are those of the whole run, of each batch size and of each context length; those of single classes, of epochs and the like are further observations, of which there are `observations` in all. */
  figures: (Figure)[];
  observations: number;
  /** `environment` is what can change an answer or a time, `resolved` what only the open model knew, `origin` where model and dataset were found. */
  environment: (Fact)[];
  resolved: (Fact)[];
  origin: (Fact)[];
  /** What its main output does; empty where the run does not say it. */
  task: string;
  /** Whether an answer is one class, so that classes can be confused and confidence can be calibrated. */
  of_classes: boolean;
  /** Whether anything is known of single classes. */
  has_classes: boolean;
  /** Whether the run has predictions. */
  answered: boolean;
  /** This run and its repetitions, where there are any. */
  attempts: (RunAttempt)[];
}

export interface RunInputs {
  state: InputState;
  sentence: string;
  rows: (InputItem)[];
  run: string;
}

/** One run. */
export interface RunItem {
  id: string;
  created: string;
  kind: RunKind;
  state: RunState;
  model: string;
  format: string;
  dataset: string;
  inputs: number;
  runtime: string;
  /** The environment: runtime, version and what sets it apart from others. */
  stack: string;
  attempt: number;
  failed: (FailedStage)[];
  /** The figure that says how good its answers are: top-1 of classes, AP of boxes. */
  judged: Figure | null;
  latency_p50: Figure | null;
  /** The figure that the list is sorted by. */
  sorted_by: Figure | null;
  /** Why figures are left out. */
  note: string;
}

/** Which kind of facts a run holds. Only evaluations are listed unless another kind is asked for. */
export type RunKind = "evaluation" | "trial" | "training" | "structure" | "claim" | "operator" | "load" | "labels" | "serving" | "trace" | "machine" | "verification" | "study" | "other";

/** A chart for each batch size that the run was timed with; none where it was not. */
export interface RunLatency {
  charts: (LatencyChart)[];
  table: WordTable;
  /** How fast a language model reads and writes, by context length; null where that was not measured. */
  writing: WordTable | null;
  /** Whether it is a language model, which `zoolens eval` times at context lengths. */
  writes: boolean;
}

/** `total` runs fit. `lacking` of them do not have the figure that they are sorted by. */
export interface RunList {
  total: number;
  offset: number;
  lacking: number;
  rows: (RunItem)[];
  facets: (Facet)[];
}

/** How far a run came, as far as the store can tell: which stages were still to come is not stored. */
export type RunState = "measured" | "failed" | "begun";

export interface RunTokens {
  run: string;
  other: string;
  /** While it is "opening", ask again in a second. */
  state: InputState;
  /** Why there are no texts, or not yet, or why tokens are shown by their numbers. */
  sentence: string;
  /** What colours stand for. */
  title: string;
  /** What an underlined token is. */
  underlined: string;
  /** What each level stands for. */
  legend: (string)[];
  /** Without texts of more than 16,000 characters, and those that two runs split into different tokens. */
  rows: (TokenTextItem)[];
}

export interface RuntimeRuns {
  name: string;
  runs: number;
}

export interface SaidLine {
  at: string;
  text: string;
}

/** A class and its score. */
export interface ScoredClass {
  number: number;
  name: string;
  score: number;
  /** The score in percent. */
  words: string;
}

/** Inputs as far as they can be seen. */
export interface SeenInputs {
  /** While it is "opening", ask again in a second. */
  state: InputState;
  /** Why there are no inputs, or not yet. */
  sentence: string;
  rows: (InputItem)[];
}

/** A session with its sentences, its chart (Vega-Lite) and its events in groups of equal ones, the newest first, of `all_groups`. */
export interface ServiceDetail {
  summary: ServiceSession;
  sentences: (string)[];
  chart_title: string;
  chart: Record<string, unknown>;
  groups: (ServiceEvents)[];
  all_groups: number;
  all_events: number;
}

export interface ServiceEvent {
  time: string;
  kind: string;
  words: string;
  waiting: number;
}

/** `count` events that differ in numbers alone, from `first` until `last`; the newest of them one by one. */
export interface ServiceEvents {
  kind: string;
  /** Those of the newest. */
  words: string;
  count: number;
  first: string;
  last: string;
  least_waiting: number;
  most_waiting: number;
  events: (ServiceEvent)[];
}

export interface ServiceList {
  total: number;
  rows: (ServiceSession)[];
}

/** One time that a service was served. */
export interface ServiceSession {
  session: string;
  service: string;
  begun: string;
  last: string;
  /** Stopped, active (something was recorded within 90 seconds), or silent: it has no requests, or it ended without recording it. */
  state: "active" | "silent" | "stopped";
  /** The model that answered last. */
  answering: string;
  /** Those that were answered and counted, which happens once a minute and at the end; refused ones are not among them. null where none were counted yet. */
  requests: number | null;
  switches: number;
  in_time: string;
}

export interface SeverityCount {
  severity: "high" | "medium" | "low" | "info";
  count: number;
}

/** How much of the gap a semantic makes, with its 95 % interval where it has one. */
export interface ShareItem {
  name: string;
  points: string;
  share: string;
  /** Whether the interval excludes zero. */
  sure: boolean;
}

/** A metric that rows are compared by. A shown figure times `factor` is in the store's unit. */
export interface ShownRespect {
  metric: string;
  title: string;
  factor: number;
}

/** What runs can be sorted by; `value` goes into `sort`. */
export interface SortChoice {
  value: string;
  metric: string;
  scope: string;
  /** Both in words, such as "median latency, batches of 8". */
  title: string;
}

/** The metrics of the store and their scopes, but for those of single classes, single epochs and pairs of runs. */
export interface SortableFigures {
  rows: (SortChoice)[];
}

/** What decides the colour of a span. */
export interface SpanCategory {
  name: string;
  colour: string;
}

/** One span. */
export interface SpanDetail {
  number: number;
  name: string;
  kind: string;
  level: string;
  seconds: number;
  words: string;
  /** The time since the beginning of the call; a sentence where it was not measured. */
  start: string;
  share: string;
  kernel: string;
  precision: string;
  shapes: (string)[];
  operators: (string)[];
  /** `from_share` and `to_share`: where it lies in the call. */
  from_share: number;
  to_share: number;
}

/** A stretch of a sound, in seconds. */
export interface SpanItem {
  begin: number;
  end: number;
}

/** One fact about the environments or the manifests that differs. */
export interface StackChange {
  what: string;
  a: string;
  b: string;
  /** Whether the fact can change answers by itself. */
  telling: boolean;
}

export interface StageItem {
  stage: string;
  done: boolean;
  error: string;
  updated: string;
}

/** How a part of A and the part of B beside it compare. */
export type State = "same" | "constants" | "differs" | "only a" | "only b" | "not known";

/** One study with its charts and explanations. */
export interface StudyDetail {
  study: StudyItem;
  lead: string;
  tiles: (StudyTile)[];
  /** Hyperparameters that differ between trials. */
  varied: (string)[];
  /** The quantities that /study/plane can be drawn over. */
  axes: (string)[];
  distributions: (Record<string, unknown>)[];
  space: Record<string, unknown> | null;
  explanations: (ExplanationItem)[];
}

/** Δ is the absolute difference of test accuracy between two sides of a trial. */
export interface StudyItem {
  name: string;
  frameworks: (string)[];
  trials: number;
  trials_words: string;
  /** Trials with a Δ. */
  with_delta: number;
  /** Trials with a Δ of five points or more. */
  apart: number;
  median_delta: string;
  largest_delta: string;
  source: string;
}

export interface StudyList {
  total: number;
  offset: number;
  rows: (StudyItem)[];
}

/** Its data have the `trial` of each point. */
export interface StudyPlane {
  x: string;
  y: string;
  chart: Record<string, unknown>;
}

export interface StudyTile {
  figure: string;
  title: string;
  kind: string;
}

/** A large figure at the head of a page. */
export interface TileItem {
  figure: string;
  title: string;
}

export interface TokenItem {
  text: string;
  /** The colour as a level from 0 to 5, as `legend` has them. */
  level: number;
  /** Whether another token was found most likely: than the one that follows, or by the other run. */
  other: boolean;
  /** What was expected here, in lines. */
  said: string;
}

/** A text in pieces: before the tokens that were to be foreseen, these, and `more` of them that are not listed. */
export interface TokenTextItem {
  index: number;
  before: string;
  tokens: (TokenItem)[];
  more: number;
}

/** What `zoolens trace show --json` prints of it. */
export interface TraceData {
  data: Record<string, unknown>;
}

/** One trace, or the recording of an application. */
export interface TraceDetail {
  trace: TraceItem;
  title: string;
  tiles: (TileItem)[];
  /** What the figures do not say. */
  notes: (string)[];
  /** What each level took, or of a recording its steps. */
  levels: WordTable;
  counters: WordTable | null;
  /** The levels of which there is one. */
  timelines: (string)[];
  /** How many rows /layers has. */
  layers: number;
  /** The prompt and the next token of a language model that was traced while it writes; else empty. */
  phases: (PhaseItem)[];
  facts: (Fact)[];
}

/** Two traces compared layer by layer. */
export interface TraceDifferences {
  a: TraceItem;
  b: TraceItem;
  notes: (string)[];
  calls: Record<string, unknown> | null;
  differences: Record<string, unknown>;
  /** `table` has the differences, largest first; a row's place is what `picked` takes, and `picked` is the one that stands out in the chart of both calls. */
  table: WordTable;
  picked: number | null;
  /** What `zoolens trace compare --json` prints. */
  data: Record<string, unknown>;
}

/** One trace, or the recording of an application. */
export interface TraceItem {
  id: string;
  created: string;
  recording: boolean;
  state: RunState;
  model: string;
  runtime: string;
  stack: string;
  batch: number;
  inputs: string;
  attempt: number;
  /** The time of one prediction, with nothing observed below it. */
  predict: Figure | null;
  /** Levels that could not be traced. */
  failed: (FailedStage)[];
}

export interface TraceJob {
  model: string;
  /** None: every runtime that can open the model. */
  runtimes?: (string)[];
  batch?: number;
  /** How deep to look. */
  level?: "pipeline" | "model" | "layer" | "library" | "system";
}

export interface TraceList {
  total: number;
  offset: number;
  rows: (TraceItem)[];
  facets: (Facet)[];
}

/** The layers of a trace against the peaks of the machine. */
export interface TraceRoofline {
  /** Why there is none; empty where there is one. */
  reason: string;
  /** Only the peaks of this machine are missing, which a job of the kind "peaks" measures with `threads` and `device`. */
  unmeasured: boolean;
  threads: number | null;
  device: string;
  notes: (string)[];
  chart: Record<string, unknown> | null;
  table: WordTable | null;
  /** What the command prints as JSON. */
  data: Record<string, unknown> | null;
}

/** One call whose time is nearest to the median, as columns in the order of time: where each of the longest spans begins and how long it takes, in seconds, its line, and the places of its name and of its category. There are `spans` in all. */
export interface TraceTimeline {
  level: string;
  seconds: number;
  words: string;
  spans: number;
  /** The shortest spans, and those on lines that are too deep, are not listed. */
  left_out: number;
  lanes: number;
  names: (string)[];
  categories: (SpanCategory)[];
  number: (number)[];
  start: (number)[];
  time: (number)[];
  lane: (number)[];
  name: (number)[];
  category: (number)[];
  /** Whether only the duration was measured, and not the start. */
  laid_out: (boolean)[];
}

/** One trial with its curves and explanations. */
export interface TrialDetail {
  trial: TrialItem;
  /** Loss and accuracy of every side over the epochs; null where fewer than two epochs were recorded. */
  curves: Record<string, unknown> | null;
  explanations: (ExplanationItem)[];
  /** Why the gap of the trial cannot be explained here; empty where a job can try. */
  unexplained: string;
}

/** One trial of a study. */
export interface TrialItem {
  trial: string;
  hyperparameters: (Fact)[];
  delta: string;
  delta_value: number | null;
  sides: (TrialSideItem)[];
  /** Caveats about the trial's Δ. */
  notes: (string)[];
}

export interface TrialPage {
  total: number;
  offset: number;
  rows: (TrialItem)[];
}

export interface TrialSideItem {
  framework: string;
  status: string;
  accuracy: string;
  seconds: string;
  run: string;
}

/** A verdict with what it rests on. */
export interface VerdictItem {
  /** Same, different or not known; null where a job of an earlier version did not say. */
  outcome: Outcome | null;
  words: string;
  /** How much was understood and what was not; empty where everything was, or where `words` say it. */
  coverage: string;
  /** What would make the rest known. */
  remedies: (string)[];
}

/** One time that an endpoint was asked. */
export interface VerificationItem {
  run: string;
  created: string;
  address: string;
  /** The model that it is said to have. */
  claimed: string;
  outcome: Outcome;
  /** The verdict in words. */
  sentence: string;
  prompts: number;
  error: number;
}

export interface WatchedEndpoint {
  name: string;
  ready: boolean;
  waiting: number;
  running: number;
  rate_words: string;
  refused_words: string;
  models: (WatchedModel)[];
}

/** Who answers: answers a second, and percentiles of the time in the server, each "at most" so much. */
export interface WatchedModel {
  model: string;
  runtime: string;
  rate: number;
  rate_words: string;
  p50: string;
  p90: string;
  p99: string;
}

/** The server that the explorer was told to watch, over the last `seconds`. `address` is empty where it was told of none; `problem` says why it cannot be asked. */
export interface WatchedServer {
  address: string;
  problem: string;
  seconds: number;
  endpoints: (WatchedEndpoint)[];
}

export interface WordColumn {
  title: string;
  number: boolean;
}

/** A table whose cells are words. */
export interface WordTable {
  columns: (WordColumn)[];
  rows: ((string)[])[];
  /** How many rows there are, of which no more than 500 are given. */
  total: number;
}

export type zoolens__base__store__jobs__JobState = "waiting" | "running" | "done" | "failed" | "lost" | "cancelled";

/** How far a job is. */
export type zoolens__faces__ui__jobs__folder__JobState = "queued" | "running" | "done" | "failed" | "cancelled";

/** What a GET of each path answers. */
export interface Answers {
  "/about": About;
  "/home": Home;
  "/datasets": DatasetList;
  "/search": Hits;
  "/reports": ReportList;
  "/reports/{id}": Report;
  "/folder": FolderFound;
  "/models": ModelPage;
  "/runs": RunList;
  "/figures": SortableFigures;
  "/runs/{run}": RunDetail;
  "/runs/{run}/observations": ObservationPage;
  "/runs/{run}/latency": RunLatency;
  "/runs/{run}/predictions": PredictionPage;
  "/runs/{run}/confusion": RunConfusion;
  "/runs/{run}/calibration": RunCalibration;
  "/runs/{run}/classes": ClassList;
  "/runs/{run}/inputs": RunInputs;
  "/runs/{run}/tokens": RunTokens;
  "/comparison": Comparison;
  "/comparison/finding": JobFinding;
  "/audits": JobList;
  "/audits/{id}": AuditSummary;
  "/audits/{id}/findings": FindingPage;
  "/audits/{id}/lines": LinePage;
  "/divergences": JobList;
  "/divergences/{id}": DivergenceFacts;
  "/divergences/{id}/flips": FlipPage;
  "/divergences/{id}/inputs": SeenInputs;
  "/choose": ChoiceAnswer;
  "/choose/rows": ChosenRows;
  "/choose/completions": CompletionList;
  "/model/{ref}": ModelDetail;
  "/history/{ref}": HistoryAnswer;
  "/measured/{ref}": Measured;
  "/network/{ref}": NetworkFacts;
  "/networks": NetworkComparison;
  "/traces": TraceList;
  "/traces/{run}": TraceDetail;
  "/traces/{run}/data": TraceData;
  "/traces/{run}/timeline": TraceTimeline;
  "/traces/{run}/span": SpanDetail;
  "/traces/{run}/layers": LayerPage;
  "/traces/{run}/roofline": TraceRoofline;
  "/traces/{run}/compared/{other}": TraceDifferences;
  "/studies": StudyList;
  "/study": StudyDetail;
  "/study/plane": StudyPlane;
  "/study/trials": TrialPage;
  "/study/trial": TrialDetail;
  "/jobs": JobList;
  "/jobs/{id}": Job;
  "/services/server": WatchedServer;
  "/services": ServiceList;
  "/services/{session}": ServiceDetail;
  "/endpoints": EndpointList;
  "/endpoints/{run}": EndpointDetail;
  "/fleet/machines": MachineList;
  "/fleet/jobs": FleetJobs;
  "/fleet/jobs/{id}": FleetLog;
  "/fleet/grid": Grid;
  "/live/agreement": LiveAgreement;
  "/live/models": Offered;
}
