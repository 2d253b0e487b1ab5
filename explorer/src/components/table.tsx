// Tables: sorting by their heads, columns that the reader chooses, and only the visible rows of long ones.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { chosen, useQueryState } from "../router";
import { useLate } from "./states";

export interface Column<Row> {
  /** Its name in the address. */
  key: string;
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** The name to sort by; absent: it cannot be sorted. */
  sort?: string;
  /** Sort the largest first at the first click. */
  descending?: boolean;
  number?: boolean;
  /** Shown only when the reader chooses it. */
  extra?: boolean;
  /** What the column means, as a tooltip of its head. */
  help?: string;
}

interface TableProps<Row> {
  /** What the table shows, for who reads by ear. */
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** "name", or "-name" for the largest first. */
  sort?: string;
  onSort?: (sort: string) => void;
  /** Rows of the same height: only those that can be seen are drawn, in a frame that scrolls. */
  virtual?: boolean;
  /** How many lines a row has at least. Where this is told, rows below the window are drawn one picture later. */
  leastLines?: (row: Row) => number;
  busy?: boolean;
}

const DRAWN_AT_ONCE = 200; // rows; fewer are always drawn
const FRAME = 640; // pixels
const AHEAD = 12; // rows above and below the frame
const ABOVE = 200; // pixels that a page has above its table
const LOWEST = 34; // pixels: no row of one line is lower
const LINE = 18; // pixels that a further line adds to it, at least

export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, rowKey, sort = "", onSort, busy } = props;
  const frame = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(36);
  const [top, setTop] = useState(0);
  const virtual = props.virtual === true && rows.length > DRAWN_AT_ONCE;
  const drawn = useDrawn(rows, props.leastLines, frame);
  const late = useLate(busy === true);
  const { data, task } = chosen();
  useLayoutEffect(() => {
    if (!virtual) return; // to ask for a height lays out the page
    const row = frame.current?.querySelector<HTMLElement>("tbody tr[data-row]");
    if (row && row.offsetHeight > 0) setHeight(row.offsetHeight);
  }, [rows.length, virtual]);
  const first = virtual ? Math.max(0, Math.floor(top / height) - AHEAD) : 0;
  const last = virtual ? Math.min(rows.length, Math.ceil((top + FRAME) / height) + AHEAD) : drawn;
  const space = (count: number) =>
    count > 0 && (
      <tr aria-hidden="true">
        <td colSpan={columns.length} height={count * height} class="space" />
      </tr>
    );
  // Rows that are the same are the same objects: a page that only waits for others compares none of their cells.
  const body = useMemo(
    () =>
      rows.slice(first, last).map((row, place) => (
        <tr role="row" key={rowKey(row)} data-row aria-rowindex={virtual ? first + place + 2 : undefined}>
          {columns.map((column) => (
            <td role="cell" class={column.number ? "number" : undefined} data-label={column.title}>
              {column.cell(row)}
            </td>
          ))}
        </tr>
      )),
    [rows, columns, first, last, virtual, data, task], // links lead on with what is chosen
  );
  return (
    <div
      class={`table${virtual ? " frame" : " stacking"}${late ? " late" : ""}`}
      ref={frame}
      tabIndex={0}
      role="group"
      aria-label={label}
      aria-busy={busy}
      onScroll={virtual ? () => setTop(frame.current?.scrollTop ?? 0) : undefined}
    >
      <table role="table" aria-rowcount={virtual ? rows.length + 1 : undefined}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <Head column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {space(first)}
          {body}
          {virtual && space(rows.length - last)}
        </tbody>
      </table>
    </div>
  );
}

/** How many of these rows are drawn now. While it is not all of them, the frame stays as high as it was. */
function useDrawn<Row>(rows: Row[], leastLines: TableProps<Row>["leastLines"], frame: RefObject<HTMLElement | null>): number {
  const [complete, setComplete] = useState<Row[]>();
  const height = useRef(0);
  const drawn = useMemo(
    () => (leastLines && complete !== rows ? countInWindow(rows, leastLines, frame.current) : rows.length),
    [rows, complete === rows],
  );
  const whole = drawn === rows.length;
  useLayoutEffect(() => {
    if (whole || !frame.current) return;
    const { style } = frame.current;
    style.minHeight = `${height.current}px`;
    return () => {
      style.minHeight = "";
    };
  }, [rows, whole]);
  useEffect(() => {
    if (whole) {
      height.current = frame.current?.offsetHeight ?? 0;
      return;
    }
    const next = requestAnimationFrame(() => setComplete(rows));
    return () => cancelAnimationFrame(next);
  }, [rows, whole]);
  return drawn;
}

/** How many rows the window shows, at most. */
function countInWindow<Row>(rows: Row[], leastLines: (row: Row) => number, frame: HTMLElement | null): number {
  let left = window.innerHeight - (frame?.getBoundingClientRect().top ?? ABOVE);
  let count = 0;
  while (count < rows.length && left > 0) left -= LOWEST + LINE * (leastLines(rows[count++]!) - 1);
  return count;
}

function Head<Row>(props: { column: Column<Row>; sort: string; onSort?: (sort: string) => void }) {
  const { column, sort, onSort } = props;
  const by = column.sort;
  const style = column.number ? "number" : undefined;
  if (by === undefined || !onSort) {
    return (
      <th role="columnheader" scope="col" class={style} title={column.help}>
        {column.title}
      </th>
    );
  }
  const direction = sort === by ? "ascending" : sort === `-${by}` ? "descending" : undefined;
  const next = direction === undefined ? (column.descending ? `-${by}` : by) : direction === "ascending" ? `-${by}` : by;
  return (
    <th role="columnheader" scope="col" class={style} aria-sort={direction} title={column.help}>
      <button type="button" onClick={() => onSort(next)}>
        {column.title}
        <span class="arrow" aria-hidden="true">
          {direction === "ascending" ? "↑" : direction === "descending" ? "↓" : ""}
        </span>
      </button>
    </th>
  );
}

/** The columns that are shown, kept in the address as ?columns=a,b, and the control with which they are chosen. */
export function useColumns<Row>(columns: Column<Row>[]): [Column<Row>[], ComponentChildren] {
  const usual = columns.filter((column) => !column.extra).map((column) => column.key).join(",");
  const [value, setValue] = useQueryState("columns", usual);
  const shownKeys = new Set(value.split(","));
  const fixed = columns[0]!.key; // what the row is about stays
  const toggle = (key: string) => {
    const keys = columns.map((column) => column.key);
    setValue(keys.filter((other) => (other === key ? !shownKeys.has(other) : shownKeys.has(other) || other === fixed)).join(","));
  };
  const chooser = useRef<HTMLDetailsElement>(null);
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !chooser.current?.open) return;
    chooser.current.open = false;
    chooser.current.querySelector("summary")?.focus();
  };
  const look = (event: FocusEvent) => {
    const next = event.relatedTarget; // null where somebody clicks, maybe on the name of a column
    if (chooser.current && next instanceof Node && !chooser.current.contains(next)) chooser.current.open = false;
  };
  const control = (
    <details class="chooser" ref={chooser} onKeyDown={leave} onFocusOut={look}>
      <summary>Columns</summary>
      <fieldset>
        <legend class="hidden">Columns of the table</legend>
        {columns.slice(1).map((column) => (
          <label>
            <input type="checkbox" checked={shownKeys.has(column.key)} onChange={() => toggle(column.key)} /> {column.title}
          </label>
        ))}
      </fieldset>
    </details>
  );
  const shown = useMemo(
    () => columns.filter((column) => column.key === fixed || shownKeys.has(column.key)),
    [columns, value],
  );
  return [shown, control];
}

/** Which rows of how many are shown, and the way to the others. */
export function Pager(props: { offset: number; limit: number; total: number; onOffset: (offset: number) => void }) {
  const { offset, limit, total, onOffset } = props;
  if (total <= limit && offset === 0) return null;
  const last = Math.min(offset + limit, total);
  return (
    <nav class="pager" aria-label="Parts of the table">
      <button type="button" disabled={offset === 0} onClick={() => onOffset(Math.max(0, offset - limit))}>
        ← Previous
      </button>
      <span>
        {(total ? offset + 1 : 0).toLocaleString("en")}–{last.toLocaleString("en")} of {total.toLocaleString("en")}
      </span>
      <button type="button" disabled={last >= total} onClick={() => onOffset(offset + limit)}>
        Next →
      </button>
    </nav>
  );
}
