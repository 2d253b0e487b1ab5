// A part of a page that is folded until somebody wants it. What is open stands in the address (?unfold=figures.classes), so
// that a link shows the same again; what is folded is neither drawn nor asked for.
import type { ComponentChildren } from "preact";
import { setQuery, useRoute } from "../router";

interface FoldProps {
  name: string;
  title: string;
  /** What is in it, in a few words beside the title. */
  note?: ComponentChildren;
  /** Parameters of the address that are about what is in it: where one is set, it is open. */
  parameters?: string[];
  children: () => ComponentChildren;
}

export function Fold({ name, title, note, parameters = [], children }: FoldProps) {
  const { query } = useRoute();
  const names = (query.get("unfold") ?? "").split(".").filter(Boolean);
  const open = names.includes(name) || parameters.some((parameter) => query.has(parameter));
  const toggle = () => {
    const others = names.filter((known) => known !== name);
    const cleared = open ? Object.fromEntries(parameters.map((parameter) => [parameter, ""])) : {};
    setQuery({ ...cleared, unfold: (open ? others : [...others, name]).join(".") }, true);
  };
  return (
    <section class="fold-part" aria-label={title}>
      <h2>
        <button type="button" aria-expanded={open} onClick={toggle}>
          {title}
        </button>
        {note && <span class="fold-note">{note}</span>}
      </h2>
      {open && <div class="fold-content">{children()}</div>}
    </section>
  );
}
