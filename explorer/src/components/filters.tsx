// How a reader narrows what is shown: words, and facets with how many there are of each value.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Facet } from "../answers";

const PAUSE = 15; // milliseconds after the last key before the search begins

export function SearchBox(props: { label: string; value: string; onSearch: (value: string) => void; hint?: string }) {
  const { label, value, onSearch, hint } = props;
  const [text, setText] = useState(value);
  const sent = useRef(value); // what comes back as `value`: letters typed meanwhile stay
  useEffect(() => {
    if (value === sent.current) return;
    sent.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      onSearch(text);
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
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
        onInput={(event) => setText(event.currentTarget.value)}
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

export function Facets(props: {
  facets: Facet[];
  names: FacetNames;
  chosen: (facet: string) => string[];
  onChoose: (facet: string, values: string[]) => void;
}) {
  const byName = new Map(props.facets.map((facet) => [facet.name, facet]));
  return (
    <div class="facets">
      {Object.entries(props.names.titles).map(([name, title]) => (
        <FacetGroup
          title={title}
          facet={byName.get(name) ?? { name, values: [] }}
          label={(value) => props.names.label?.(name, value) ?? value}
          chosen={props.chosen(name)}
          onChoose={(values) => props.onChoose(name, values)}
        />
      ))}
    </div>
  );
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
