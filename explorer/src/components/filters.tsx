// How a reader narrows what is shown: words, and facets with how many there are of each value.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Facet } from "../answers";

const PAUSE = 15; // milliseconds from one search to the next while letters come faster than that

export function SearchBox(props: { label: string; value: string; onSearch: (value: string) => void; hint?: string }) {
  const { label, value, onSearch, hint } = props;
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const underway = useRef<string[]>([]); // what comes back as `value`, maybe after more was typed: that stays
  const rests = useRef(0); // until when
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    const place = underway.current.indexOf(value);
    underway.current = place < 0 ? [] : underway.current.slice(place + 1);
    if (place >= 0 || value === sent.current) return;
    clearTimeout(timer.current);
    sent.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (next: string) => {
    if (next === sent.current) return;
    sent.current = next;
    underway.current.push(next);
    rests.current = performance.now() + PAUSE;
    onSearch(next);
  };
  // Not in an effect, which would wait for the next picture of the page.
  const type = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    const rest = rests.current - performance.now();
    if (rest <= 0) search(next);
    else timer.current = setTimeout(() => search(next), rest);
  };
  return (
    <label class="search">
      <span class="hidden">{label}</span>
      <input
        type="search"
        value={text}
        placeholder={hint ?? label}
        autocomplete="off"
        spellcheck={false}
        maxLength={200}
        onInput={(event) => type(event.currentTarget.value)}
      />
    </label>
  );
}

export interface FacetNames {
  /** The title of each facet, in the order in which they are shown. */
  titles: Record<string, string>;
  /** What a value is called, where that is not the value itself. */
  label?: (facet: string, value: string) => string;
}

const SHOWN = 8; // values of a facet before one asks for all

interface FacetsProps {
  facets: Facet[];
  names: FacetNames;
  chosen: (facet: string) => string[];
  onChoose: (facet: string, values: string[]) => void;
}

export function Facets(props: FacetsProps) {
  const { facets, names, chosen } = props;
  const latest = useRef(props);
  latest.current = props;
  // A page that only waits for another answer compares none of the hundreds of values.
  return useMemo(() => {
    const byName = new Map(facets.map((facet) => [facet.name, facet]));
    return (
      <div class="facets">
        {Object.entries(names.titles).map(([name, title]) => (
          <FacetGroup
            title={title}
            facet={byName.get(name) ?? { name, values: [] }}
            label={(value) => names.label?.(name, value) ?? value}
            chosen={chosen(name)}
            onChoose={(values) => latest.current.onChoose(name, values)}
          />
        ))}
      </div>
    );
  }, [facets, names, JSON.stringify(Object.keys(names.titles).map(chosen))]);
}

function FacetGroup(props: {
  title: string;
  facet: Facet;
  label: (value: string) => string;
  chosen: string[];
  onChoose: (values: string[]) => void;
}) {
  const { title, facet, label, chosen, onChoose } = props;
  const [all, setAll] = useState(false);
  const ordered = facet.values;
  const shown = ordered.filter((value, place) => all || place < SHOWN || chosen.includes(value.value));
  const toggle = (value: string) =>
    onChoose(chosen.includes(value) ? chosen.filter((other) => other !== value) : [...chosen, value]);
  if (!ordered.length) return null;
  return (
    <fieldset>
      <legend>{title}</legend>
      {shown.map((value) => (
        <label class={value.count ? undefined : "dim"}>
          <input type="checkbox" checked={chosen.includes(value.value)} onChange={() => toggle(value.value)} />
          <bdi class="value">{label(value.value)}</bdi>
          <span class="count">{value.count.toLocaleString("en")}</span>
        </label>
      ))}
      {ordered.length > shown.length && (
        <button type="button" class="more" onClick={() => setAll(true)}>
          {ordered.length - shown.length} more
        </button>
      )}
    </fieldset>
  );
}
