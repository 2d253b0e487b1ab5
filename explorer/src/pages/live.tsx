// Live: drop in an image, run it through several models at once, and see their answers side by side.
import { useEffect, useRef, useState } from "preact/hooks";
import type { LiveResult } from "../answers";
import { ApiError, download, get, resourceUrl, upload } from "../api";
import { Loading } from "../components/states";
import { setQuery, useRoute } from "../router";

const EXAMPLES = 8;
const SUGGESTED = 3;

/** "zoo:name in runtime" of each card; without a runtime the server chooses one. */
interface Choice {
  model: string;
  runtime: string;
}

export function LivePage() {
  const { query } = useRoute();
  const choices = query.getAll("with").map(parse);
  const [image, setImage] = useState<Blob>();
  const picture = useObjectUrl(image);
  useEffect(() => {
    if (choices.length) return;
    get("/models", { measured: ["yes"], task: ["classification"], limit: SUGGESTED }).then(
      (page) => setQuery({ with: page.rows.map((row) => row.ref) }, true),
      () => undefined, // the reader names models
    );
  }, []);
  return (
    <>
      <h1>Live</h1>
      <p>
        One image through several classifiers, each with its own preprocessing, in a sandboxed process of its own. Text can be
        given to no model yet: manifests declare images and arrays of numbers, but neither words nor a tokenizer that would
        turn them into numbers.
      </p>
      <div class="live">
        <section aria-label="Image">
          <Drop picture={picture} onImage={setImage} />
          <p>Or one of these:</p>
          <div class="examples">
            {Array.from({ length: EXAMPLES }, (_, index) => (
              <button
                type="button"
                aria-label={`Example ${index + 1}`}
                onClick={() => download("/live/examples/{index}", { index }).then(setImage, () => undefined)} // the page says why
              >
                <img src={exampleUrl(index)} alt="" width={44} height={44} />
              </button>
            ))}
          </div>
        </section>
        <section aria-label="Answers">
          <ChoiceForm onAdd={(choice) => setQuery({ with: [...query.getAll("with"), choice] })} />
          {!choices.length && <p class="dim">Name a model to begin with, such as demo:lenet-torch.</p>}
          <div class="cards">
            {choices.map((choice, place) => (
              <AnswerCard
                key={format(choice)}
                choice={choice}
                image={image}
                onRemove={() => setQuery({ with: query.getAll("with").filter((_, other) => other !== place) })}
              />
            ))}
          </div>
        </section>
      </div>
    </>
  );
}

function parse(text: string): Choice {
  const [model = "", runtime = ""] = text.split(" in ");
  return { model: model.trim(), runtime: runtime.trim() };
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

function Drop({ picture, onImage }: { picture?: string; onImage: (image: Blob) => void }) {
  const [over, setOver] = useState(false);
  const take = (file?: File | null) => file && onImage(file);
  return (
    <label
      class={over ? "drop over" : "drop"}
      onDragOver={(event) => (event.preventDefault(), setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => (event.preventDefault(), setOver(false), take(event.dataTransfer?.files[0]))}
    >
      {picture ? <img src={picture} alt="The image that the models are given" /> : <span>Drop an image here, or choose a file</span>}
      <input type="file" accept="image/*" aria-label="Image file" onChange={(event) => take(event.currentTarget.files?.[0])} />
    </label>
  );
}

function ChoiceForm({ onAdd }: { onAdd: (choice: string) => void }) {
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
        <input type="text" value={text} placeholder="demo:lenet-torch in onnxruntime" spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit">Add</button>
    </form>
  );
}

function AnswerCard({ choice, image, onRemove }: { choice: Choice; image?: Blob; onRemove: () => void }) {
  const [result, setResult] = useState<LiveResult>();
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  useEffect(() => {
    if (!image) return;
    const own = ++latest.current;
    setBusy(true);
    setProblem("");
    setResult(undefined); // it was about another image
    upload<LiveResult>("/live", { model: choice.model, runtime: choice.runtime }, image)
      .then((answer) => own === latest.current && setResult(answer))
      .catch((error: unknown) => {
        if (own !== latest.current) return;
        setResult(undefined);
        setProblem(error instanceof ApiError ? error.message : String(error));
      })
      .finally(() => own === latest.current && setBusy(false));
  }, [image, choice.model, choice.runtime]);
  return (
    <article class="card" aria-label={format(choice)} aria-busy={busy}>
      <header>
        <b>
          <bdi>{choice.model}</bdi>
        </b>
        <button type="button" onClick={onRemove} aria-label={`Remove ${format(choice)}`}>
          ✕
        </button>
      </header>
      <p class="dim">
        <bdi>{result?.runtime ?? choice.runtime}</bdi>
      </p>
      {!image && <p class="dim">Waits for an image.</p>}
      {busy && !result && <Loading what="Waits for the answer" />}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {result && (
        <>
          <ol>
            {result.classes.map((one) => (
              <li>
                <bdi>{one.label}</bdi>
                <span class="number">{one.words}</span>
                <progress max={1} value={one.probability} aria-label={`Probability of ${one.label}`} />
              </li>
            ))}
          </ol>
          <p class="dim">
            {result.image}; this call took {result.took}
          </p>
        </>
      )}
    </article>
  );
}
