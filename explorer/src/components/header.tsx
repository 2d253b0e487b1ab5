// The head of every page: the way to the others in groups, the dataset that is chosen for all of them, and the search.
import { useEffect, useState } from "preact/hooks";
import type { About, DatasetItem } from "../answers";
import { holds, isLive, useAnswer } from "../api";
import { shownName } from "../datasets";
import { GROUPS, type Page } from "../pages";
import { address, chosen, setQuery, useRoute } from "../router";
import { Finder } from "./finder";

interface HeaderProps {
  pages: Page[];
  page?: Page;
  home: Page;
  about?: About;
}

export function Header({ pages, page, home, about }: HeaderProps) {
  const route = useRoute();
  const [open, setOpen] = useState(false); // the menu of a narrow window
  useEffect(() => setOpen(false), [route.path]);
  const linked = pages.filter((candidate) => candidate.link);
  const groups = GROUPS.map((group) => ({ group, pages: linked.filter((candidate) => candidate.group === group) })).filter(
    (one) => one.pages.length > 0,
  );
  const near = groups.find((one) => one.group === page?.group);
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !open) return;
    setOpen(false);
    document.querySelector<HTMLElement>(".menu-button")?.focus();
  };
  return (
    <header class={open ? "top open" : "top"} onKeyDown={leave}>
      <div class="top-line">
        <a class="brand" href={address(home.path)} aria-label={`zoolens: ${home.title.toLowerCase()}`}>
          zoolens
        </a>
        <nav class="groups" aria-label="Groups">
          {groups.map(({ group, pages: inside }) => (
            <a href={address(inside[0]!.path)} aria-current={group === near?.group ? "true" : undefined} title={inside.map((one) => one.link).join(", ")}>
              {group}
            </a>
          ))}
        </nav>
        <Choice page={page} />
        <Finder pages={linked} />
        <button type="button" class="menu-button" aria-expanded={open} aria-controls="menu" onClick={() => setOpen(!open)}>
          Menu
        </button>
      </div>
      <div class="second-line">
        <nav aria-label="Pages">
          {near?.pages.map((candidate) => (
            <a href={address(candidate.path)} aria-current={candidate === page ? "page" : undefined}>
              {candidate.link}
            </a>
          ))}
        </nav>
        {about && (
          <span class="about">
            <bdi>{about.store}</bdi> · {about.runs.toLocaleString("en")} {about.runs === 1 ? "evaluation" : "evaluations"}
          </span>
        )}
      </div>
      {open && (
        <nav id="menu" class="menu" aria-label="Menu">
          {groups.map(({ group, pages: inside }) => (
            <section aria-label={group}>
              <h2>{group}</h2>
              {inside.map((candidate) => (
                <a href={address(candidate.path)} aria-current={candidate === page ? "page" : undefined}>
                  {candidate.link}
                </a>
              ))}
            </section>
          ))}
        </nav>
      )}
    </header>
  );
}

// --- the dataset

const USUAL = "classification"; // what an address without a task is about, where pages have to take one

/** The dataset that every page of several runs follows; it stands in the address. */
function Choice({ page }: { page?: Page }) {
  const { answer } = useAnswer(isLive() || holds("/datasets") ? "/datasets" : null);
  const { data, task } = chosen();
  const rows = answer?.rows ?? [];
  if (!page?.follows || (rows.length < 2 && !data && !task)) return null;
  const known = rows.some((row) => row.name === data);
  const choose = (value: string) => {
    const [nextTask = "", nextData = ""] = JSON.parse(value) as string[];
    setQuery({ data: nextData, task: nextTask, offset: "" });
  };
  return (
    <label class="choice">
      <span class="hidden">Dataset for all pages</span>
      <select value={optionOf(rows, data, task)} onChange={(event) => choose(event.currentTarget.value)}>
        <option value={JSON.stringify(["", ""])}>All datasets</option>
        {data && !known && <option value={JSON.stringify([task, data])}>{shownName(data)} (not measured)</option>}
        {tasksOf(rows).map((name) => (
          <optgroup label={name}>
            <option value={JSON.stringify([name, ""])}>All of {name}</option>
            {rows
              .filter((row) => row.tasks.includes(name))
              .map((row) => (
                <option value={JSON.stringify([taskFor(row, name), row.name])}>{row.name}</option>
              ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

export function tasksOf(rows: DatasetItem[]): string[] {
  return [...new Set(rows.flatMap((row) => row.tasks))].sort();
}

/** The task stands in the address where the dataset alone does not say it. */
export function taskFor(row: DatasetItem, task: string): string {
  return row.tasks.length === 1 && task === USUAL ? "" : task;
}

/** The option that says what the address does, although it may say it in more words. */
export function optionOf(rows: DatasetItem[], data: string, task: string): string {
  const row = rows.find((one) => one.name === data);
  if (!row) return JSON.stringify([task, data]);
  const own = row.tasks.includes(task) ? task : (row.tasks[0] ?? "");
  return JSON.stringify([taskFor(row, own), data]);
}
