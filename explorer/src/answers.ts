// Written by scripts/make_ui_types.py from the endpoints of src/zoolens/faces/ui/resources: do not edit.

/** `store`: its file name or address. `runs`: evaluations in it. */
export interface About {
  version: string;
  store: string;
  runs: number;
}

export interface AuditJob {
  zoos?: (string)[];
  architectures?: (string)[];
}

/** `summary`: in one sentence; `judged`: the same with its coverage, and an outcome where it is not known whether names stand for one network each. `notes`: which zoos were left out, and why; the first of `total_notes`. `severities`: how many findings there are of each, the gravest first. */
export interface AuditSummary {
  job: Job;
  summary: string;
  judged: VerdictItem;
  notes: (string)[];
  total_notes: number;
  architectures: number;
  severities: (SeverityCount)[];
}

/** `rows`: models in runtimes that were measured. `never_run`: models that nobody ran, of which only claims and what their files say is known. `problem`: why the query was not answered; what is shown then is the whole index. `explanation`: what EXPLAIN says. `metrics`: what rows can be compared by. */
export interface ChoiceAnswer {
  query: string;
  problem: Problem | null;
  verdict: string;
  notes: (string)[];
  dataset: string;
  inputs: number;
  rows: number;
  never_run: number;
  x: ShownRespect | null;
  y: ShownRespect | null;
  size: ShownRespect | null;
  metrics: (string)[];
  title: string;
  chart: Record<string, unknown>;
  funnel: Record<string, unknown> | null;
  misses: Record<string, unknown> | null;
  explanation: (string)[];
}

/** One row of the index. `run`: its id in the store, or "" where it was never run. `x` and `y` are the figures with their intervals in words, `x_value` and `y_value` in the store's units. */
export interface ChosenRow {
  key: string;
  ref: string;
  run: string;
  runtime: string;
  standing: string;
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

/** `inputs` of this class, and how many inputs were `answered` with it. `recall`: null where it is not stored. */
export interface ClassItem {
  number: number;
  name: string;
  inputs: number;
  answered: number;
  recall: Figure | null;
}

/** Classes that are a label or an answer of at least one input: `total` of them, of which no more than 2,000 are given. `reason`: why there are none. `scored`: the scores of the answers were kept, so that inputs can be sorted by them. */
export interface ClassList {
  reason: string;
  scored: boolean;
  total: number;
  rows: (ClassItem)[];
}

/** The numbers of two classes, as `label` and `answer` of a list of predictions take them. */
export interface ClassPair {
  label: number;
  answer: number;
}

export interface CompareJob {
  a: string;
  b: string;
}

/** A class on whose inputs the two runs are not right alike. `p`: of the exact McNemar test of this class alone. */
export interface ComparedClass {
  name: string;
  inputs: number;
  a: string;
  b: string;
  p: string;
}

/** One figure of both runs; null where one of them lacks it. `change`: how much B is above A, in words. `overlap`: whether the intervals of two figures that are no shares overlap; null where it is not known, and for shares, which are of the same inputs and are therefore judged in pairs. */
export interface ComparedFigure {
  metric: string;
  scope: string;
  a: Figure | null;
  b: Figure | null;
  change: string;
  overlap: boolean | null;
}

/** `precision`: the one that was effective; empty where it is not known. */
export interface ComparedRun {
  id: string;
  created: string;
  model: string;
  stack: string;
  precision: string;
}

/** What `zoolens compare` says of two runs. `verdict`: how many answers differ, and whether the change of accuracy is more than chance; `judged`: the same as a verdict with its coverage; null where both are one run. `answered`: both have answers that can be listed side by side. `differing`: inputs with different answers; null where the answers are no classes. `changed_classes`: how many classes changed, of which `classes` are the clearest. `cause` is empty where nothing differs, or nothing that was recorded explains it. `cause_in_files`: the cause is in the files of two models, and a job "compare" looks into them. `parts_by_stack`: one model answers differently in the two runs, and a job "diverge" says at which layer they part. */
export interface Comparison {
  a: ComparedRun;
  b: ComparedRun;
  dataset: string;
  inputs: number;
  verdict: string;
  judged: VerdictItem | null;
  tiles: (TileItem)[];
  notes: (string)[];
  cause: string;
  cause_in_files: boolean;
  parts_by_stack: boolean;
  answered: boolean;
  labelled: boolean;
  differing: number | null;
  figures: (ComparedFigure)[];
  figures_chart: Record<string, unknown> | null;
  flips_chart: Record<string, unknown> | null;
  classes: (ComparedClass)[];
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

/** How much of a measure something costs, and which share of the whole network that is. `heat`: 1 to 7. */
export interface CostWords {
  words: string;
  share: string;
  heat: number;
}

export interface DivergeJob {
  a: string;
  b: string;
  data?: string | null;
  limit?: number | null;
}

/** `layers`: how many values inside the model can be read and found in its graph. */
export interface DivergedSide {
  title: string;
  runtime: string;
  version: string;
  precision: string;
  layers: number;
}

/** Why the two part. `proof`: what was changed and what became of the difference; empty where nothing was tried. `proved`: the difference vanished with it. */
export interface DivergenceCause {
  kind: string;
  sentence: string;
  layer: string;
  proved: boolean;
  proof: string;
}

/** What `zoolens diverge` found. `judged`: the verdict with its coverage. `agrees`: they are known to agree. `first`: the first layer that is farther apart than rounding explains; empty if there is none. `growth`: how far the two are apart, layer after layer; null where no layers could be compared. */
export interface DivergenceFacts {
  job: Job;
  a: DivergedSide;
  b: DivergedSide;
  runs: (string)[];
  data: string;
  inputs: number;
  verdict: string;
  judged: VerdictItem;
  agrees: boolean;
  flips: number;
  first: string;
  sentences: (string)[];
  causes: (DivergenceCause)[];
  growth: Record<string, unknown> | null;
  floor: string;
  layers: WordTable;
}

export interface EvaluateJob {
  models: (string)[];
  data?: string;
  runtimes?: (string)[];
  limit?: number | null;
  fresh?: boolean;
}

export interface ExplainJob {
  study: string;
  trial: string;
  frameworks?: (string)[];
  replicates?: number;
}

/** Which semantics make the gap of a trial. `lines`: all that `zoolens crosstrain explain` said. */
export interface ExplanationItem {
  study: string;
  trial: string;
  runs_in: string;
  a: string;
  b: string;
  gap: string;
  shares: (ShareItem)[];
  chart: Record<string, unknown> | null;
  lines: (string)[];
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

/** One thing that is not as it is said to be. `models`: the odd one first; they are the first of `total_models`, as `evidence` is of `total_evidence`. `networks`: two models whose networks the finding is about, the odd one first; empty where it is about something else. */
export interface FindingItem {
  id: string;
  severity: "high" | "medium" | "low" | "info";
  rule: string;
  architecture: string;
  title: string;
  models: (string)[];
  total_models: number;
  evidence: (string)[];
  total_evidence: number;
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

export interface FlipPage {
  total: number;
  offset: number;
  rows: (FlippedInput)[];
}

/** An input that the two answer differently. `index`: its place, by which /divergences/{id}/inputs knows it; null of comparisons by earlier versions. Classes are numbers; null where there is none. `apart`: how far the two answers are apart. */
export interface FlippedInput {
  index: number | null;
  input: string;
  label: number | null;
  a: number | null;
  b: number | null;
  apart: string;
}

export interface HistoryAnswer {
  runs: number;
  others: number;
  title: string;
  chart: Record<string, unknown>;
}

/** `name`: what the data call it now. `words`: what it is, with its first numbers where it is no image. `picture`: there is one at /runs/{run}/inputs/{index}. */
export interface InputItem {
  index: number;
  name: string;
  words: string;
  picture: boolean;
}

export type InputState = "ready" | "opening" | "unavailable";

/** One job. `runs`: the ids of runs that it made or met. `error`: why it failed, in the words of the command. `code`: the exit status of the command; null if it was never started or lost. */
export interface Job {
  id: string;
  kind: string;
  title: string;
  command: string;
  state: JobState;
  created: string;
  ended: string | null;
  code: number | null;
  error: string;
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

/** How far a job is. */
export type JobState = "queued" | "running" | "done" | "failed" | "cancelled";

export interface LatencyChart {
  title: string;
  chart: Record<string, unknown>;
}

/** The newest evaluation of a model, and what it found. `latency_p50`: of single inputs, never of larger batches. */
export interface LatestRun {
  id: string;
  created: string;
  dataset: string;
  runtime: string;
  top1: Figure | null;
  latency_p50: Figure | null;
}

/** `depth`: below how many others it is. `share`: of the time of all outermost layers together. */
export interface LayerItem {
  number: number;
  depth: number;
  name: string;
  kind: string;
  time: Figure;
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

/** A layer of A and the one of B beside it; empty where a side has none. `marks`: the numbers of the differences. */
export interface LinePair {
  a: string;
  b: string;
  source_a: string;
  source_b: string;
  state: State;
  marks: (number)[];
}

/** `complete`: no zoo is being listed now. */
export interface ListingState {
  models: number;
  complete: boolean;
}

/** `label` is the name of the class, or its number where the manifest names none. */
export interface LiveClass {
  label: string;
  probability: number;
  words: string;
}

export interface LiveQuery {
  model: string;
  runtime?: string;
  most?: number;
}

/** What a classifier says of an image. `took` is the time of this one call, with the way to the model's process: it measures nothing. */
export interface LiveResult {
  model: string;
  runtime: string;
  classes: (LiveClass)[];
  took: string;
  opened: boolean;
  image: string;
}

/** What became of one text, and what the model says of it: `classes`, or in `vector` its first numbers. `tokens`: how many the model was given; `cut`: the text has more; `unknown`: how many of them the tokenizer does not know. */
export interface LiveText {
  tokens: number;
  cut: boolean;
  unknown: number | null;
  pieces: (string)[];
  classes: (LiveClass)[];
  vector: string;
  length: string;
}

/** `numbers`: of each vector, 0 for classifiers. `alike`: the cosine of the vectors of each two texts, where angles mean something. */
export interface LiveTextResult {
  model: string;
  runtime: string;
  texts: (LiveText)[];
  most_tokens: number;
  numbers: number;
  alike: ((string)[])[];
  took: string;
  opened: boolean;
}

/** `manifest`: its lines. `replacement`: a query for models that can take its place. */
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
  manifest: (string)[];
  claims: (ClaimItem)[];
  claims_chart: Record<string, unknown> | null;
  namesakes: (Namesake)[];
  replacement: string;
}

/** One model. `listed`: a zoo of this machine has it; otherwise only the store knows it. `params`, `bytes` and `claimed_top1` are what its source says. `activity`: runs in equal stretches of time from `since` until `until`. */
export interface ModelItem {
  ref: string;
  zoo: string;
  name: string;
  version: string;
  listed: boolean;
  task: string;
  formats: (string)[];
  licence: string;
  weights: string;
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
  activity: (number)[];
  latest: LatestRun | null;
}

/** `total` models fit, of `all` there are. `complete`: every zoo was listed; otherwise ask again. `notes`: what could not be listed, and why. */
export interface ModelPage {
  total: number;
  all: number;
  offset: number;
  rows: (ModelItem)[];
  facets: (Facet)[];
  since: string | null;
  until: string | null;
  complete: boolean;
  notes: (string)[];
}

/** Another model that is called the same, or is of the same architecture by its name. */
export interface Namesake {
  ref: string;
  runs: number;
  params_words: string;
  listed: boolean;
}

/** `costs` have one entry for each of `measures`, null for nothing. `heats`: what each heat means, from none to the hottest. `unknown`: operators that nobody can count. `whole`: the layers in blocks are given; networks of thousands of layers come without them. */
export interface Network {
  macs_words: string;
  parameters_words: string;
  layers: number;
  unknown: (string)[];
  whole: boolean;
  measures: (string)[];
  heats: (string)[];
  stages: (NetworkStage)[];
  chart: Record<string, unknown>;
}

/** `lines`: pairs of places in `layers`, whose first is −1 where the value comes from outside the block. `ends`: the places of layers whose values are used outside. `inputs`: places of the other blocks of its part whose values it uses, and −1 for values from outside the part. `count`: how many layers it has, also where none are given. */
export interface NetworkBlock {
  title: string;
  shape: string;
  count: number;
  costs: (CostWords | null)[];
  lines: ((number)[])[];
  ends: (number)[];
  inputs: (number)[];
  layers: (NetworkLayer)[];
}

/** What `zoolens diff` says of two models, and their parts side by side. `compared`: both networks are known here. `judged`: the headline as a verdict; null where they were not compared. `total`: how many differences there are, of which no more than 200 are given. `not_proved`: what stands beside operators that are not understood, which proves nothing. */
export interface NetworkComparison {
  a: NetworkSide;
  b: NetworkSide;
  compared: boolean;
  same: boolean;
  headline: string;
  judged: VerdictItem | null;
  total: number;
  differences: (NetworkDifference)[];
  not_proved: (string)[];
  parts: (PartPair)[];
}

/** One thing that differs. `macs_words`: what it changes in multiply-accumulates from A to B; `share_words`: which share of the whole gap that is. */
export interface NetworkDifference {
  number: number;
  cause: string;
  text: string;
  macs_words: string;
  share_words: string;
  parameters_words: string;
}

/** `network`: null where it is not known here; `reason` then says why, and `readable` whether a job can read it. */
export interface NetworkFacts {
  ref: string;
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

/** Equal blocks behind one another, or one block, or one layer (`single`). `inputs`: the `place` of every part whose values it uses. */
export interface NetworkPart {
  place: number;
  title: string;
  shape: string;
  single: boolean;
  inputs: (number)[];
  costs: (CostWords | null)[];
  blocks: (NetworkBlock)[];
}

/** One of the two. `name`: what the sentences call it. `read`, `readable` and `reason`: as of one network. */
export interface NetworkSide {
  ref: string;
  name: string;
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

/** `details`: what else is known of it, in words. */
export interface ObservationItem {
  stage: string;
  figure: Figure;
  details: (Fact)[];
}

/** `metrics`: how many observations there are of each. */
export interface ObservationPage {
  total: number;
  offset: number;
  rows: (ObservationItem)[];
  metrics: (FacetValue)[];
}

/** Models that take an image (and are classifiers) or a text: those that were measured first, then those whose files are on this machine. */
export interface Offered {
  models: (string)[];
}

export type Outcome = "same" | "different" | "not known";

/** A part of A and the one of B beside it. `first_only`: the lines are those of the first of several blocks, and those of the others read differently. `left_out`: lines that are not given, because there are too many. */
export interface PartPair {
  stage: string;
  a: string;
  b: string;
  macs_a: string;
  macs_b: string;
  state: State;
  marks: (number)[];
  first_only: boolean;
  left_out: number;
  lines: (LinePair)[];
}

export interface PeaksJob {
  threads?: number | null;
  device?: string;
}

/** What one run answered. `answer` is the number of the class; null where it answers no classes. `right`: null where nobody knows. `best`: the classes with the highest scores, as far as they were kept. */
export interface PredictedAnswer {
  words: string;
  answer: number | null;
  score: number | null;
  right: boolean | null;
  best: (ScoredClass)[];
}

/** One input. `truth` is the name of its class, empty where the data do not say; `label_score` is the probability that the run gave to it. `agreement`: with the other run, between 0 and 1. */
export interface PredictionItem {
  index: number;
  input: string;
  label: number | null;
  truth: string;
  ours: PredictedAnswer;
  theirs: PredictedAnswer | null;
  label_score: number | null;
  label_words: string;
  agreement: number | null;
}

/** `total` inputs are listed, of `inputs` that were answered; `unknown` of them stand last, because what they are sorted by is not known. `bin`: the range of confidence that was asked for, in words. */
export interface PredictionPage {
  run: string;
  other: string;
  total: number;
  inputs: number;
  offset: number;
  unknown: number;
  bin: string;
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

/** A repetition of the same model on the same data in the same stack. */
export interface RunAttempt {
  id: string;
  attempt: number;
  created: string;
}

/** `table` has a row for each bin; its place is the number of the bin. `ece`: the expected calibration error with its interval. */
export interface RunCalibration {
  reason: string;
  title: string;
  chart: Record<string, unknown> | null;
  table: WordTable | null;
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

/** `figures` are those of the whole run and of each batch size; those of single classes, of epochs and the like are further observations, of which there are `observations` in all. `notes`: what a reader must know before he trusts the figures. `advice`: what to do about a run that is not finished. `environment` is what can change an answer or a time, `resolved` what only the open model knew, `origin` where model and data were found. `answered`: it has predictions. `attempts`: this run and its repetitions, where there are any. */
export interface RunDetail {
  run: RunItem;
  model_fingerprint: string;
  data_fingerprint: string;
  precision: string;
  tiles: (TileItem)[];
  notes: (string)[];
  advice: string;
  stages: (StageItem)[];
  figures: (Figure)[];
  observations: number;
  environment: (Fact)[];
  resolved: (Fact)[];
  origin: (Fact)[];
  answered: boolean;
  attempts: (RunAttempt)[];
}

export interface RunInputs {
  state: InputState;
  sentence: string;
  rows: (InputItem)[];
  run: string;
}

/** One run. `stack`: runtime, version and what sets the stack apart. `sorted_by`: the figure that the list is sorted by. `note`: why figures are left out. */
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
  stack: string;
  attempt: number;
  failed: (FailedStage)[];
  top1: Figure | null;
  latency_p50: Figure | null;
  sorted_by: Figure | null;
  note: string;
}

/** Which kind of facts a run holds. Only evaluations are listed unless another kind is asked for. */
export type RunKind = "evaluation" | "trial" | "training" | "structure" | "claim" | "operator" | "load" | "labels" | "serving" | "trace" | "machine" | "study" | "other";

/** A chart for each batch size that the run was timed with; none where it was not. */
export interface RunLatency {
  charts: (LatencyChart)[];
  table: WordTable;
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

/** `words`: the score in percent. */
export interface ScoredClass {
  number: number;
  name: string;
  score: number;
  words: string;
}

/** `state`: while it is "opening", ask again in a second. `sentence`: why there are no inputs, or not yet. */
export interface SeenInputs {
  state: InputState;
  sentence: string;
  rows: (InputItem)[];
}

/** A session with its sentences, its chart (Vega-Lite) and its newest events, of `all_events`. */
export interface ServiceDetail {
  summary: ServiceSession;
  sentences: (string)[];
  chart_title: string;
  chart: Record<string, unknown>;
  events: (ServiceEvent)[];
  all_events: number;
}

export interface ServiceEvent {
  time: string;
  kind: string;
  words: string;
  waiting: number;
}

export interface ServiceList {
  total: number;
  rows: (ServiceSession)[];
}

/** One time that a service was served. `state`: stopped, active (something was recorded within 90 seconds), or silent: it has no requests, or it ended without a word. `answering`: the model that answered at last. `requests`: those that were answered and counted, which happens once a minute and at the end; refused ones are not among them. null where none were counted yet. */
export interface ServiceSession {
  session: string;
  service: string;
  begun: string;
  last: string;
  state: "active" | "silent" | "stopped";
  answering: string;
  requests: number | null;
  switches: number;
  in_time: string;
}

export interface SeverityCount {
  severity: "high" | "medium" | "low" | "info";
  count: number;
}

/** How much of the gap a semantic makes, with its 95 % interval where it has one. `sure`: it is not nothing. */
export interface ShareItem {
  name: string;
  points: string;
  share: string;
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
}

/** The metrics of the store and their scopes, but for those of single classes, single epochs and pairs of runs. */
export interface SortableFigures {
  rows: (SortChoice)[];
}

/** One span. `start`: from the beginning of the call; it says so where it was not measured. `from_share` and `to_share`: where it lies in the call. */
export interface SpanDetail {
  number: number;
  name: string;
  kind: string;
  level: string;
  seconds: number;
  words: string;
  start: string;
  share: string;
  kernel: string;
  precision: string;
  shapes: (string)[];
  operators: (string)[];
  from_share: number;
  to_share: number;
}

/** One fact about the stacks or the manifests that is not the same. `telling`: it can change answers by itself. */
export interface StackChange {
  what: string;
  a: string;
  b: string;
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

/** `varied`: hyperparameters that differ between trials. `axes`: what /study/plane can be drawn over. `charts`: distributions, side against side and the whole space, as far as there is something to draw. */
export interface StudyDetail {
  study: StudyItem;
  lead: string;
  tiles: (StudyTile)[];
  varied: (string)[];
  axes: (string)[];
  distributions: (Record<string, unknown>)[];
  space: Record<string, unknown> | null;
  explanations: (ExplanationItem)[];
}

/** Δ is the absolute difference of test accuracy between two sides of a trial. `with_delta`: trials that have one; `apart`: those of them whose sides are five points or more apart. */
export interface StudyItem {
  name: string;
  frameworks: (string)[];
  trials: number;
  trials_words: string;
  with_delta: number;
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

/** What `zoolens trace show --json` prints of it. */
export interface TraceData {
  data: Record<string, unknown>;
}

/** `levels`: what each level took, or of a recording its steps. `timelines`: the levels of which there is one. `layers`: how many rows /layers has. `notes`: what the figures do not say. */
export interface TraceDetail {
  trace: TraceItem;
  title: string;
  tiles: (TileItem)[];
  notes: (string)[];
  levels: WordTable;
  counters: WordTable | null;
  timelines: (string)[];
  layers: number;
  facts: (Fact)[];
}

/** `table` has the differences, largest first; a row's place is what `picked` takes, and `picked` is the one that stands out in the chart of both calls. `data`: what `zoolens trace compare --json` prints. */
export interface TraceDifferences {
  a: TraceItem;
  b: TraceItem;
  notes: (string)[];
  calls: Record<string, unknown> | null;
  differences: Record<string, unknown>;
  table: WordTable;
  picked: number | null;
  data: Record<string, unknown>;
}

/** One trace, or the recording of an application. `predict`: the time of one prediction, with nothing observed below it. `failed`: levels that could not be observed. */
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
  predict: Figure | null;
  failed: (FailedStage)[];
}

export interface TraceJob {
  model: string;
  runtimes?: (string)[];
  batch?: number;
  level?: "pipeline" | "model" | "layer" | "library" | "system";
}

export interface TraceList {
  total: number;
  offset: number;
  rows: (TraceItem)[];
  facets: (Facet)[];
}

/** `reason`: why there is none; empty where there is one. `unmeasured`: only the peaks of this machine are missing, which a job of the kind "peaks" measures with `threads` and `device`. `data`: what the command prints as JSON. */
export interface TraceRoofline {
  reason: string;
  unmeasured: boolean;
  threads: number | null;
  device: string;
  notes: (string)[];
  chart: Record<string, unknown> | null;
  table: WordTable | null;
  data: Record<string, unknown> | null;
}

/** One call whose time is nearest to the median. Its data have the `number` of each span. */
export interface TraceTimeline {
  level: string;
  seconds: number;
  spans: number;
  chart: Record<string, unknown>;
  span: SpanDetail | null;
}

/** `curves`: loss and accuracy of every side over the epochs; null where nobody kept two epochs. `unexplained`: why the gap of the trial cannot be explained here; empty where a job can try. */
export interface TrialDetail {
  trial: TrialItem;
  curves: Record<string, unknown> | null;
  explanations: (ExplanationItem)[];
  unexplained: string;
}

/** `notes`: what a reader must know before trusting its Δ. */
export interface TrialItem {
  trial: string;
  hyperparameters: (Fact)[];
  delta: string;
  delta_value: number | null;
  sides: (TrialSideItem)[];
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

/** `outcome`: same, different or not known; null where a job of an earlier version did not say. `coverage`: how much was understood and what was not; empty where everything was, or where `words` say it. `remedies`: what would make the rest known. */
export interface VerdictItem {
  outcome: Outcome | null;
  words: string;
  coverage: string;
  remedies: (string)[];
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

/** `total`: how many rows there are, of which no more than 500 are given. */
export interface WordTable {
  columns: (WordColumn)[];
  rows: ((string)[])[];
  total: number;
}

/** What a GET of each path answers. */
export interface Answers {
  "/about": About;
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
  "/network/{ref}": NetworkFacts;
  "/networks": NetworkComparison;
  "/traces": TraceList;
  "/traces/{run}": TraceDetail;
  "/traces/{run}/data": TraceData;
  "/traces/{run}/timeline": TraceTimeline;
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
  "/live/models": Offered;
}
