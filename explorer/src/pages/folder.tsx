// The models and datasets of a folder, and the job that evaluates them.
import { useState } from "preact/hooks";
import type { FolderFound } from "../answers";
import { useAnswer } from "../api";
import { JobCard } from "../components/job";
import { EmptyState, ErrorState, Loading, Notes } from "../components/states";
import { counted } from "../figures";
import { useStartedJob } from "../jobs";
import { address, useRoute } from "../router";

const BUILT_IN = "demo";
const MOST = 50; // models of one job

export function FolderPage() {
  const { query } = useRoute();
  const path = query.get("path") ?? "";
  const { answer, error, again } = useAnswer(path ? "/folder" : null, { path });
  return (
    <>
      <h1>A folder of models</h1>
      <p class="dim">
        <bdi>{path || "No folder is named."}</bdi>
      </p>
      {error && <ErrorState error={error} again={again} />}
      {path && !answer && !error && <Loading what="Looking into the folder" />}
      {answer && <Found key={path} found={answer} />}
      <p>
        On the command line <code>zoolens init FOLDER</code> does the same, asks what it cannot know, and says which model to ship.
      </p>
    </>
  );
}

function Found({ found }: { found: FolderFound }) {
  const [left, setLeft] = useState<string[]>([]);
  const labelled = found.data.find((one) => one.labelled) ?? found.data[0];
  const [data, setData] = useState(labelled?.data ?? BUILT_IN);
  const { job, problem, start } = useStartedJob();
  const taken = found.models.filter((model) => !left.includes(model.path)).slice(0, MOST);
  if (!found.models.length) return <EmptyState title="There is no model in it that can be run as it is." />;
  return (
    <>
      <fieldset class="found-list">
        <legend>{counted(found.models.length, "model")}</legend>
        {found.models.map((model) => (
          <label>
            <input type="checkbox" checked={!left.includes(model.path)} onChange={() => setLeft(left.includes(model.path) ? left.filter((one) => one !== model.path) : [...left, model.path])} />{" "}
            <bdi>{model.name}</bdi>
            {!model.described && <span class="dim"> without a manifest: what it takes and answers is guessed from the file</span>}
          </label>
        ))}
      </fieldset>
      <fieldset class="found-list">
        <legend>Dataset</legend>
        {[...found.data, { data: BUILT_IN, reason: "the 2,000 images that come with zoolens", labelled: true }].map((one) => (
          <label>
            <input type="radio" name="data" checked={data === one.data} onChange={() => setData(one.data)} /> <bdi>{one.data}</bdi>{" "}
            <span class="dim">
              <bdi>{one.reason}</bdi>
              {!one.labelled && ", without labels: nothing says which answer is right"}
            </span>
          </label>
        ))}
      </fieldset>
      <p>
        <button type="button" class="primary" disabled={!taken.length} onClick={() => void start("evaluate", { models: taken.map((model) => model.path), data })}>
          Evaluate {counted(taken.length, "model")}
        </button>
      </p>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {job && <JobCard key={job.id} job={job} />}
      {job && (
        <p>
          When it is done: <a href={address("home")}>which is the best</a>, and <a href={address("choose")}>which one to ship</a>.
        </p>
      )}
      <Notes notes={found.left_out} title={`${counted(found.left_out.length, "thing")} left out`} />
    </>
  );
}
