// What a page shows when there is nothing else to show: an error, nothing, or not yet.
import type { ComponentChildren } from "preact";
import type { ApiError } from "../api";

export function ErrorState({ error, again }: { error: ApiError; again?: () => void }) {
  return (
    <div class="state error" role="alert">
      <p>{error.message}</p>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function EmptyState({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="lead">{title}</p>
      {children}
    </div>
  );
}

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="loading" role="status">
      {what} …
    </p>
  );
}

/** Sentences that a reader must not overlook, such as what could not be listed. */
export function Notes({ notes, title }: { notes: string[]; title: string }) {
  if (!notes.length) return null;
  return (
    <details class="notes">
      <summary>{title}</summary>
      <ul>
        {notes.map((note) => (
          <li>
            <bdi>{note}</bdi>
          </li>
        ))}
      </ul>
    </details>
  );
}
