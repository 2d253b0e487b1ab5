// Live: drop in an image or type some texts, run them through several models at once, and see their answers side by side.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { DrawnItem, LiveClass, LiveResult, LiveText, LiveTextResult } from "../answers";
import { ApiError, download, get, resourceUrl, upload, useAnswer } from "../api";
import { AnsweredText, DrawnPicture, MarkedWords } from "../components/drawings";
import { Camera, usePastedImage } from "../components/camera";
import { useDrop } from "../components/drop";
import { PageLink } from "../components/link";
import { Loading } from "../components/states";
import { Tabs } from "../components/tabs";
import { counted } from "../figures";
import { takeOver } from "../handover";
import { setQuery, useRoute } from "../router";

const EXAMPLES = 8;
const SUGGESTED = 3;
const OFFERED = 50;
const MOST_TEXTS = 5;
const MOST_LETTERS = 100_000; // of each text: a browser takes minutes to lay out a line of millions
const KEPT_LETTERS = 2000; // of each text in the address
const MOST_BYTES = 16 << 20; // of an image: the server takes no more
const MOST_PAIRS = 6; // of models whose agreement is told
const SHOWN_PIECES = 60; // tokens of a text
const PAUSE = 400; // milliseconds after the last key before texts are sent

/** "zoo:name in runtime" of each card; without a runtime the server chooses one. */
interface Choice {
  model: string;
  runtime: string;
}

export function LivePage() {
  return (
    <>
      <h1>Live</h1>
      <p>
        One image or some texts through several models, each with its own preprocessing or tokenizer, in a sandboxed process of
        its own. Boxes, maps of classes and tags are drawn on what the models were given.
      </p>
      <Tabs
        label="What the models are given"
        parameter="input"
        tabs={[
          { key: "image", title: "Image", content: () => <ImageLive key="image" /> },
          { key: "text", title: "Text", content: () => <TextLive key="text" /> },
        ]}
      />
    </>
  );
}

function ImageLive() {
  const [given, setGiven] = useState<{ image: Blob; name: string }>();
  const [refused, setRefused] = useState("");
  const picture = useObjectUrl(given?.image);
  const latest = useRef(0); // what was chosen last counts, however long it takes to arrive
  const take = (name: string, arriving: Promise<Blob>, refusal: string) => {
    const own = ++latest.current;
    setRefused("");
    arriving.then(
      (image) => own === latest.current && setGiven({ image, name }),
      () => own === latest.current && setRefused(refusal),
    );
  };
  const takeFile = (file: File) => {
    if (file.size > MOST_BYTES) {
      latest.current += 1;
      setRefused(`${file.name} has ${file.size.toLocaleString("en")} bytes, more than the ${MOST_BYTES.toLocaleString("en")} that can be given here. It was not taken.`);
      return;
    }
    const arriving = file.arrayBuffer().then((content) => new Blob([content], { type: file.type }));
    take(file.name, arriving, `${file.name} cannot be read: it is a folder, or it was moved or changed meanwhile.`);
  };
  usePastedImage(takeFile);
  useEffect(() => {
    const file = takeOver(); // dropped on the first page
    if (file) takeFile(file);
  }, []);
  const entry = (
    <section aria-label="Image">
      <Drop picture={picture} name={given?.name ?? ""} onFile={takeFile} />
      <Camera onPicture={takeFile} />
      {refused && (
        <p class="problem" role="alert">
          <bdi>{refused}</bdi>
        </p>
      )}
      <p>Or one of these:</p>
      <div class="examples">
        {Array.from({ length: EXAMPLES }, (_, index) => (
          <button
            type="button"
            aria-label={`Example ${index + 1}`}
            onClick={() => take(`Example ${index + 1}`, download("/live/examples/{index}", { index }), "This example cannot be read.")}
          >
            <img src={exampleUrl(index)} alt="" width={44} height={44} />
          </button>
        ))}
      </div>
    </section>
  );
  return <Live takes="image" parameter="with" example="demo:lenet-torch" entry={entry} card={(choice, remove, tell) => (
    <AnswerCard choice={choice} given={given?.image} path="/live" waits="Waits for an image." onRemove={remove}
      onResult={(result?: LiveResult) => tell(result?.key ? [result.key] : [], bestOf(result))}>
      {(result: LiveResult) => (
        <>
          {result.classes.length > 0 && <Classes classes={result.classes} />}
          {result.drawn && picture && <DrawnImage result={result} drawn={result.drawn} picture={picture} name={given?.name ?? ""} />}
          {result.words && (
            <p>
              <bdi>{result.words}</bdi>
            </p>
          )}
          <p class="dim">
            {result.image}
            {result.fitting && `, ${result.fitting}`}; this call took {result.took}
            {result.named_by && (
              <>
                . Its file names no classes: the names are those of <bdi>{result.named_by}</bdi>, on which it was evaluated
              </>
            )}
          </p>
        </>
      )}
    </AnswerCard>
  )} />;
}

function TextLive() {
  const { query } = useRoute();
  const [texts, setTexts] = useState(() => (query.getAll("text").length ? query.getAll("text") : [""]).slice(0, MOST_TEXTS));
  const [given, setGiven] = useState(() => asGiven(texts));
  const [refused, setRefused] = useState("");
  const sent = useRef(texts);
  const write = (box: HTMLTextAreaElement, place: number) => {
    const { length } = box.value;
    if (length > MOST_LETTERS) {
      box.value = texts[place] ?? "";
      setRefused(`A text has ${length.toLocaleString("en")} characters, more than the ${MOST_LETTERS.toLocaleString("en")} that can be given here. It was not taken.`);
      return;
    }
    setRefused("");
    setTexts(texts.map((before, other) => (other === place ? box.value : before)));
  };
  useEffect(() => {
    if (sent.current === texts) return;
    const timer = window.setTimeout(() => {
      sent.current = texts;
      setGiven(asGiven(texts));
      const short = texts.every((text) => text.length <= KEPT_LETTERS);
      setQuery({ text: short ? texts.filter((text) => text !== "") : [] }, true);
    }, PAUSE);
    return () => window.clearTimeout(timer);
  }, [texts]);
  const entry = (
    <section aria-label="Texts" class="texts">
      {texts.map((text, place) => (
        <div class="text">
          <label>
            <span>{texts.length > 1 ? `Text ${place + 1}` : "Text"}</span>
            <textarea
              rows={texts.length > 1 ? 3 : 6}
              dir="auto"
              spellcheck={false}
              value={text}
              onInput={(event) => write(event.currentTarget, place)}
            />
          </label>
          {texts.length > 1 && (
            <button type="button" aria-label={`Remove text ${place + 1}`} onClick={() => setTexts(texts.filter((_, other) => other !== place))}>
              ✕
            </button>
          )}
        </div>
      ))}
      {refused && (
        <p class="problem" role="alert">
          {refused}
        </p>
      )}
      {texts.length < MOST_TEXTS && (
        <button type="button" onClick={() => setTexts([...texts, ""])}>
          Add a text
        </button>
      )}
      <p class="dim">Models that make vectors of texts show the similarity of several of them. A model that looks for an answer takes the question as
        text 1 and what it is to be found in as text 2.</p>
    </section>
  );
  return <Live takes="text" parameter="model" example="folder:minilm" entry={entry} card={(choice, remove, tell) => (
    <AnswerCard choice={choice} given={given.body} path="/live/text" waits="Waits for a text." onRemove={remove}
      onResult={(result?: LiveTextResult) => tell(result?.texts.map((text) => text.key) ?? [])}>
      {(result: LiveTextResult) => <TextAnswers result={result} given={given} />}
    </AnswerCard>
  )} />;
}

interface GivenTexts {
  body?: Blob;
  numbers: number[];
  texts: string[];
}

/** The texts that are not empty as the body of a request, none where all are; and which of the boxes they stand in. */
function asGiven(texts: string[]): GivenTexts {
  const numbers = texts.flatMap((text, place) => (text === "" ? [] : [place + 1]));
  const body = numbers.length ? new Blob([JSON.stringify(texts.filter((text) => text !== ""))]) : undefined;
  return { body, numbers, texts: texts.filter((text) => text !== "") };
}

interface LiveProps {
  takes: "image" | "text";
  /** Of the address, which holds the models. */
  parameter: string;
  example: string;
  entry: ComponentChildren;
  /** `tell` is called with the keys of a card's answers, which can be compared with those of other cards. */
  card: (choice: Choice, remove: () => void, tell: (keys: string[], best?: Best) => void) => ComponentChildren;
}

/** What a classifier holds for most probable. */
export interface Best {
  label: string;
  /** Whether its manifest names the class: numbers of two models mean nothing to each other. */
  named: boolean;
  words: string;
  took: string;
}

function bestOf(result?: LiveResult): Best | undefined {
  const best = result?.classes[0];
  return best && result && { label: best.label, named: best.named, words: best.words, took: result.took };
}

function Live({ takes, parameter, example, entry, card }: LiveProps) {
  const { query } = useRoute();
  const chosen = query.getAll(parameter);
  const [offered, setOffered] = useState<string[]>();
  const [keys, setKeys] = useState<Record<string, string[]>>({});
  const [bests, setBests] = useState<Record<string, Best | undefined>>({});
  useEffect(() => {
    get("/live/models", { takes, limit: OFFERED }).then(
      ({ models }) => {
        setOffered(models);
        if (!chosen.length && models.length) setQuery({ [parameter]: models.slice(0, SUGGESTED) }, true);
      },
      () => undefined, // the reader names models
    );
  }, []);
  return (
    <div class="live">
      {entry}
      <section aria-label="Answers">
        <ChoiceForm example={example} offered={offered ?? []} onAdd={(choice) => setQuery({ [parameter]: [...new Set([...chosen, choice])] })} />
        {!chosen.length && <p class="dim">Name a model to begin with, such as {example}.</p>}
        {!chosen.length && takes === "text" && offered?.length === 0 && (
          <p class="dim">
            None can be offered: no listed model with its files here declares <code>modality: text</code> and a tokenizer.
          </p>
        )}
        <Verdict chosen={chosen} bests={bests} />
        <div class={takes === "text" ? "cards texts-cards" : "cards pictures-cards"}>
          {chosen.map((text, place) => (
            <div key={text}>
              {card(
                parse(text),
                () => setQuery({ [parameter]: chosen.filter((_, other) => other !== place) }),
                (told, best) => {
                  setKeys((before) => ({ ...before, [text]: told }));
                  setBests((before) => ({ ...before, [text]: best }));
                },
              )}
            </div>
          ))}
        </div>
        <Agreements chosen={chosen} keys={keys} />
        {chosen.length > 0 && (
          <p>
            One input proves nothing.{" "}
            <PageLink page="jobs" query={{ model: chosen.map((text) => parse(text).model).join(" ") }}>
              Evaluate these on a dataset
            </PageLink>
          </p>
        )}
      </section>
    </div>
  );
}

/** Names of files may hold " in ", too: a runtime is the last word, and no path. */
function parse(text: string): Choice {
  const [, model = text, runtime = ""] = /^(.+) in ([^\s/.]+)$/s.exec(text.trim()) ?? [];
  return { model: model.trim(), runtime };
}

function format({ model, runtime }: Choice): string {
  return runtime ? `${model} in ${runtime}` : model;
}

function exampleUrl(index: number): string {
  return resourceUrl("/live/examples/{index}", { index });
}

function useObjectUrl(blob?: Blob): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    if (!blob) return;
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url;
}

/** The browser's own field would say "No file chosen" beside an example: it lies over the whole area and is not seen. */
function Drop({ picture, name, onFile }: { picture?: string; name: string; onFile: (file: File) => void }) {
  const take = (file?: File | null) => file && onFile(file);
  const { over, handlers } = useDrop(take);
  return (
    <label class={over ? "drop over" : "drop"} {...handlers}>
      {picture && <img src={picture} alt="The image that the models are given" />}
      {name && <bdi>{name}</bdi>}
      <span>{picture ? "Drop another image here, or choose a file" : "Drop or paste an image here, or choose a file"}</span>
      <input
        type="file"
        accept="image/*"
        aria-label="Image file"
        title={name}
        onClick={(event) => (event.currentTarget.value = "")} // so that the same file can be chosen again
        onChange={(event) => take(event.currentTarget.files?.[0])}
      />
    </label>
  );
}

function ChoiceForm({ example, offered, onAdd }: { example: string; offered: string[]; onAdd: (choice: string) => void }) {
  const [text, setText] = useState("");
  const add = (event: Event) => {
    event.preventDefault();
    if (text.trim()) onAdd(format(parse(text.trim())));
    setText("");
  };
  return (
    <form class="bar" onSubmit={add} aria-label="Add a model">
      <label class="search">
        <span class="hidden">Model, or model in runtime</span>
        <input type="text" value={text} placeholder={`${example} in onnxruntime`} spellcheck={false} list="offered-models"
          onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <datalist id="offered-models">
        {offered.map((model) => (
          <option value={model} />
        ))}
      </datalist>
      <button type="submit">Add</button>
    </form>
  );
}

interface CardProps<Result> {
  choice: Choice;
  given?: Blob;
  path: string;
  waits: string;
  onRemove: () => void;
  /** Called with each answer, and with none as long as there is none. */
  onResult: (result?: Result) => void;
  children: (result: Result) => ComponentChildren;
}

function AnswerCard<Result extends { runtime: string }>({ choice, given, path, waits, onRemove, onResult, children }: CardProps<Result>) {
  const [result, setResult] = useState<Result>();
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  useEffect(() => {
    const own = ++latest.current;
    setBusy(given !== undefined);
    setProblem("");
    setResult(undefined); // it was about something else
    onResult();
    if (!given) return;
    upload<Result>(path, { model: choice.model, runtime: choice.runtime }, given)
      .then((answer) => {
        if (own !== latest.current) return;
        setResult(() => answer);
        onResult(answer);
      })
      .catch((error: unknown) => {
        if (own !== latest.current) return;
        setResult(undefined);
        setProblem(error instanceof ApiError ? error.message : String(error));
      })
      .finally(() => own === latest.current && setBusy(false));
  }, [given, choice.model, choice.runtime]);
  return (
    <article class="card" aria-label={format(choice)} aria-busy={busy}>
      <header>
        <h2>
          <bdi>{choice.model}</bdi>
        </h2>
        <button type="button" onClick={onRemove} aria-label={`Remove ${format(choice)}`}>
          ✕
        </button>
      </header>
      <p class="dim">
        <bdi>{result?.runtime ?? choice.runtime}</bdi>
      </p>
      {!given && <p class="dim">{waits}</p>}
      {busy && !result && <Loading what="Waits for the answer" />}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {result && children(result)}
    </article>
  );
}

/** The image that was given, with what the model found on it. */
function DrawnImage(props: { result: LiveResult; drawn: DrawnItem; picture: string; name: string }) {
  const { result, drawn, picture, name } = props;
  return (
    <>
      <DrawnPicture
        src={picture}
        alt={name}
        width={result.width}
        height={result.height}
        item={drawn}
        overlay={result.overlay ? `data:image/png;base64,${result.overlay}` : undefined}
        shows="The classes that were answered"
      />
      {drawn.more_boxes > 0 && <p class="dim">{drawn.more_boxes.toLocaleString("en")} more boxes are not drawn</p>}
    </>
  );
}

/** Which class each classifier holds for most probable: classes are the same where their names are. */
export function votes(bests: [string, Best][]): { label: string; models: string[] }[] {
  const found = new Map<string, { label: string; models: string[] }>();
  for (const [model, { label }] of bests) {
    const vote = found.get(label.toLowerCase()) ?? { label, models: [] };
    vote.models.push(model);
    found.set(label.toLowerCase(), vote);
  }
  return [...found.values()].sort((a, b) => b.models.length - a.models.length);
}

/** Whether the classifiers hold the same class for most probable, by its name; and how long each took. */
function Verdict({ chosen, bests }: { chosen: string[]; bests: Record<string, Best | undefined> }) {
  const known = chosen.flatMap((text) => (bests[text] ? [[text, bests[text]] as [string, Best]] : []));
  const named = known.filter(([, best]) => best.named);
  if (known.length < 2) return null;
  const cast = votes(named);
  return (
    <p class="verdict" role="status">
      {named.length >= 2 && cast.length === 1 && (
        <>
          All {named.length} say <bdi>{cast[0]!.label}</bdi>.
        </>
      )}
      {cast.length > 1 && (
        <>
          Their first classes have different names:{" "}
          {cast.map(({ label, models }, place) => (
            <>
              {place > 0 && ", "}
              <bdi>{label}</bdi> <span class="dim">({models.length})</span>
            </>
          ))}
          .
        </>
      )}
      {named.length < known.length && ` ${counted(known.length - named.length, "model names", "models name")} no classes, so that nobody knows whether they mean the same.`}{" "}
      <span class="dim">One call each took {known.map(([, best]) => best.took).join(", ")}: this measures nothing.</span>
    </p>
  );
}

/** How far each two models agree on what they were given. */
function Agreements({ chosen, keys }: { chosen: string[]; keys: Record<string, string[]> }) {
  const told = chosen.filter((text) => keys[text]?.some(Boolean));
  const pairs = told.flatMap((a, place) => told.slice(place + 1).map((b) => [a, b] as const)).slice(0, MOST_PAIRS);
  if (!pairs.length) return null;
  return (
    <section aria-label="Agreement">
      <h2>Agreement</h2>
      <ul class="plain">
        {pairs.flatMap(([a, b]) =>
          (keys[a] ?? []).map((key, place) => {
            const other = keys[b]?.[place];
            return key && other && <Agreement key={`${key} ${other}`} names={[a, b]} keys={[key, other]} text={(keys[a] ?? []).length > 1 ? place + 1 : 0} />;
          }),
        )}
      </ul>
    </section>
  );
}

function Agreement({ names, keys, text }: { names: [string, string]; keys: [string, string]; text: number }) {
  const { answer, error } = useAnswer("/live/agreement", { a: keys[0], b: keys[1] });
  const reason = error?.message ?? answer?.reason;
  return (
    <li>
      <bdi>{names[0]}</bdi> and <bdi>{names[1]}</bdi>
      {text > 0 && `, answer ${text}`}:{" "}
      {reason ? <span class="dim">not known. {reason}</span> : answer && <b>{answer.words}</b>}{" "}
      {!reason && answer && <span class="dim">({answer.name})</span>}
    </li>
  );
}

function Classes({ classes }: { classes: LiveClass[] }) {
  return (
    <ol>
      {classes.map((one) => (
        <li>
          <bdi>{one.label}</bdi>
          <span class="number">{one.words}</span>
          <progress max={1} value={one.probability} aria-label={`Probability of ${one.label}`} />
        </li>
      ))}
    </ol>
  );
}

function TextAnswers({ result, given }: { result: LiveTextResult; given: GivenTexts }) {
  const { numbers, texts } = given;
  const several = !result.pair && (result.texts.length > 1 || numbers[0] !== 1);
  return (
    <>
      {result.texts.map((text, place) => (
        <section aria-label={several ? `Text ${numbers[place]}` : "Text"}>
          {several && <h3>Text {numbers[place]}</h3>}
          {text.classes.length > 0 && <Classes classes={text.classes} />}
          {text.drawn?.marks && <MarkedWords words={text.split} more={text.more_words} marks={text.drawn.marks} />}
          {text.drawn && result.pair && <AnsweredText text={(texts[1] ?? "").split(/\s+/).join(" ")} answers={text.drawn.texts} />}
          {text.words && !text.drawn?.marks?.length && (
            <p>
              <bdi>{text.words}</bdi>
            </p>
          )}
          {result.numbers > 0 && (
            <p>
              {result.numbers.toLocaleString("en")} {result.numbers === 1 ? "number" : "numbers"}, length of the vector {text.length}:{" "}
              <span class="number">{text.vector}</span>
            </p>
          )}
          <Tokens text={text} most={result.most_tokens} />
        </section>
      ))}
      {result.alike.length > 0 && <Alike rows={result.alike} numbers={numbers} />}
      <p class="dim">
        {result.texts.length > 1 ? "These calls" : "This call"} took {result.took}
      </p>
    </>
  );
}

function Tokens({ text, most }: { text: LiveText; most: number }) {
  const count = text.cut ? `Cut: the model reads ${text.tokens} tokens and no more` : `${text.tokens} of at most ${most} tokens`;
  const unknown = text.unknown ? `, ${text.unknown} of them unknown to the tokenizer` : "";
  if (text.pieces.length === 0) {
    return (
      <p class="dim">
        {count}
        {unknown}
      </p>
    );
  }
  return (
    <>
      <p class="dim">
        {count}
        {unknown}
      </p>
      <p class="pieces" role="group" aria-label="Tokens">
        {text.pieces.slice(0, SHOWN_PIECES).map((piece) => (
          <bdi>{piece}</bdi>
        ))}
        {Math.min(text.pieces.length, SHOWN_PIECES) < text.tokens && <span>… {(text.tokens - Math.min(text.pieces.length, SHOWN_PIECES)).toLocaleString("en")} more</span>}
      </p>
    </>
  );
}

function Alike({ rows, numbers }: { rows: string[][]; numbers: number[] }) {
  return (
    <table class="alike">
      <caption>Similarity of the texts (cosine: 1 is the same direction)</caption>
      <thead>
        <tr>
          <td />
          {rows.map((_, place) => (
            <th scope="col" class="number" aria-label={`Text ${numbers[place]}`}>
              {numbers[place]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, place) => (
          <tr>
            <th scope="row">Text {numbers[place]}</th>
            {row.map((value) => (
              <td class="number">{value}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
