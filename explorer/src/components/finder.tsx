// The search over everything, opened by one key: pages, models, runs, datasets, studies, traces, services, reports, jobs
// and commands.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Hit } from "../answers";
import { get, isLive } from "../api";
import { COMMANDS } from "../commands";
import type { Page } from "../pages";
import { address, chosen } from "../router";

const PAUSE = 100; // milliseconds after the last key
const MOST_COMMANDS = 6;

export interface Found {
  kind: string;
  title: string;
  detail: string;
  /** Where it leads; a command leads nowhere and is copied. */
  href: string;
  copies?: string;
}

function has(words: string[], text: string): boolean {
  const low = text.toLowerCase();
  return words.every((word) => low.includes(word));
}

/** Pages and commands whose name or description has all words; those whose name begins with them come first. */
export function local(text: string, pages: Pick<Page, "path" | "link" | "about" | "group">[]): Found[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = pages
    .filter((page) => has(words, `${page.link} ${page.group} ${page.about ?? ""}`))
    .map((page) => ({ kind: "page", title: page.link ?? "", detail: page.about ?? "", href: address(page.path) }));
  if (!words.length) return found;
  const commands = COMMANDS.filter(([name, about]) => has(words, `zoolens ${name} ${about}`)).map(([name, about]) => ({
    kind: "command",
    title: `zoolens ${name}`,
    detail: about,
    href: "",
    copies: `zoolens ${name}`,
  }));
  const first = (one: Found) => (one.title.toLowerCase().startsWith(words[0]!) ? 0 : 1);
  return [...found.sort((a, b) => first(a) - first(b)), ...commands.slice(0, MOST_COMMANDS)];
}

function hitFound(hit: Hit): Found {
  const query = hit.data ? { data: hit.data, task: "" } : {};
  return { kind: hit.kind, title: hit.title, detail: hit.detail, href: address(hit.rest ? `${hit.page}/${hit.rest}` : hit.page, query) };
}

/** Pages first, then what was found by name, then commands. */
export function together(own: Found[], hits: Found[]): Found[] {
  const commands = own.filter((one) => one.kind === "command");
  return [...own.filter((one) => one.kind !== "command"), ...hits, ...commands];
}

export function Finder({ pages }: { pages: Page[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const typing = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
      const wanted = ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") || (event.key === "/" && !typing && !event.ctrlKey && !event.altKey && !event.metaKey);
      if (!wanted) return;
      event.preventDefault();
      setOpen(true);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
  // Before anything is painted: a key that is pressed right behind the one that opens it would otherwise be lost.
  useLayoutEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  return (
    <>
      <button type="button" class="finder-button" aria-keyshortcuts="/ Control+K" onClick={() => setOpen(true)}>
        Search <kbd aria-hidden="true">/</kbd>
      </button>
      {open && (
        <dialog ref={dialog} class="finder" aria-label="Search over everything" onClose={() => setOpen(false)} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
          <Search pages={pages} close={() => dialog.current?.close()} />
        </dialog>
      )}
    </>
  );
}

function Search({ pages, close }: { pages: Page[]; close: () => void }) {
  const [text, setText] = useState("");
  const [hits, setHits] = useState<Found[]>([]);
  const [active, setActive] = useState(0);
  const [said, setSaid] = useState("");
  const latest = useRef(0);
  const { data, task } = chosen();
  useEffect(() => {
    const own = ++latest.current;
    if (!text.trim() || !isLive()) {
      setHits([]);
      return;
    }
    const timer = setTimeout(() => {
      get("/search", { q: text.trim().slice(0, 200) }).then(
        ({ rows }) => own === latest.current && setHits(rows.map(hitFound)),
        () => own === latest.current && setHits([]), // pages and commands are found without the server
      );
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text, data, task]);
  const found = together(local(text, pages), hits);
  const place = Math.min(active, found.length - 1);
  const take = async (one?: Found) => {
    if (!one) return;
    if (!one.copies) {
      close();
      window.location.hash = one.href;
      return;
    }
    try {
      await navigator.clipboard.writeText(one.copies);
      setSaid(`Copied: ${one.copies}`);
    } catch {
      setSaid(`Type it in a terminal: ${one.copies}`);
    }
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length) setActive((place + step + found.length) % found.length);
    else if (event.key === "Enter") void take(found[place]);
    else return;
    event.preventDefault();
  };
  useEffect(() => document.getElementById(`found-${place}`)?.scrollIntoView({ block: "nearest" }), [place]);
  return (
    <>
      <input
        type="text"
        role="combobox"
        aria-label="Search over everything"
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={found.length ? `found-${place}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder="Models, runs, datasets, pages, commands …"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
          setSaid("");
        }}
        onKeyDown={press}
      />
      <ul id="found" role="listbox" aria-label="What was found">
        {found.map((one, at) => (
          <li id={`found-${at}`} role="option" aria-selected={at === place} onClick={() => void take(one)} onPointerMove={() => at !== place && setActive(at)}>
            <span class="mark">{one.kind}</span>
            <bdi class="found-title">{one.title}</bdi>
            <bdi class="dim">{one.detail}</bdi>
          </li>
        ))}
      </ul>
      <p class="dim" role="status">
        {said || (found.length ? "Arrows choose, Enter goes there, Escape closes. A command is copied." : "Nothing has these words.")}
      </p>
    </>
  );
}
