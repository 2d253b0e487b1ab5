// Long lists: which part of one is shown, the way to the others, and what stands there where nothing does.
import type { ComponentChildren } from "preact";
import { useNarrow } from "../narrow";
import { setQuery, useRoute } from "../router";
import { EmptyState } from "./states";
import { Pager } from "./table";

/** Where the part that is shown begins; it is kept in the address. */
export function useOffset(parameter = "offset"): number {
  const { query } = useRoute();
  return Math.max(0, Math.floor(Number(query.get(parameter)))) || 0;
}

interface PartProps {
  part: { total: number; rows: readonly unknown[] };
  limit: number;
  parameter?: string;
  /** What is shown where the whole list is empty. */
  nothing: ComponentChildren;
  children: ComponentChildren;
}

/** One part of a list, and the way to the others. An address may also name one behind its end. */
export function Part({ part, limit, parameter = "offset", nothing, children }: PartProps) {
  const offset = useOffset(parameter);
  const show = (next: number) => setQuery({ [parameter]: next ? String(next) : "" });
  if (!part.rows.length && part.total > 0) {
    return (
      <EmptyState title={`The list ends before that: it has ${part.total.toLocaleString("en")}.`}>
        <button type="button" onClick={() => show(0)}>
          Show its beginning
        </button>
      </EmptyState>
    );
  }
  return (
    <>
      {part.rows.length ? children : nothing}
      <Pager offset={offset} limit={limit} total={part.total} onOffset={show} />
    </>
  );
}

/** Filters beside what they leave; in a narrow window above it, and folded. */
export function Filtered(props: { label: string; filters: ComponentChildren; children: ComponentChildren }) {
  const narrow = useNarrow();
  return (
    <div class="split">
      <aside aria-label="Filters">
        {narrow ? (
          <details class="folded">
            <summary>Filters</summary>
            {props.filters}
          </details>
        ) : (
          props.filters
        )}
      </aside>
      <section aria-label={props.label}>{props.children}</section>
    </div>
  );
}

/** What a list without rows says where filters or a search are to blame. */
export function NothingFits({ what }: { what: string }) {
  return <EmptyState title={`No ${what} fits.`}>Remove a filter, or a word of the search.</EmptyState>;
}
