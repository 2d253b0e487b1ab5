// Tables of reports, whose cells are words of the server.
import type { WordTable as Words } from "../answers";

interface WordTableProps {
  table: Words;
  /** What the table shows, for who reads by ear. */
  label: string;
  /** The place of the row that stands out, and what is called when another is picked. */
  picked?: number | null;
  onPick?: (place: number) => void;
}

export function WordTable({ table, label, picked, onPick }: WordTableProps) {
  return (
    <div class="table stacking" role="group" aria-label={label} tabIndex={0}>
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {table.columns.map((column) => (
              <th role="columnheader" scope="col" class={column.number ? "number" : undefined}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {table.rows.map((row, place) => (
            <tr role="row" class={place === picked ? "picked" : undefined}>
              {row.map((cell, at) => (
                <td role="cell" class={table.columns[at]?.number ? "number" : undefined} data-label={table.columns[at]?.title}>
                  {at === 0 && onPick ? (
                    <button type="button" class="more" aria-pressed={place === picked} onClick={() => onPick(place)}>
                      <bdi>{cell}</bdi>
                    </button>
                  ) : (
                    <bdi>{cell}</bdi>
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length < table.total && (
        <p class="dim">
          {(table.total - table.rows.length).toLocaleString("en")} more rows are not shown.
        </p>
      )}
    </div>
  );
}
