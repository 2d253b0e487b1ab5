// Links between pages. Where a bundle does not have what a page is about, the name stands alone.
import type { ComponentChildren } from "preact";
import { holdsView } from "../api";
import { address } from "../router";

const known = new Set<string>();

/** Tell which pages there are, before anything is shown. */
export function registerPages(paths: string[]): void {
  paths.forEach((path) => known.add(path));
}

interface LinkProps {
  /** The first part of the address, such as "model". */
  page: string;
  /** What follows it, such as a model's name. */
  rest?: string;
  query?: Record<string, string | number | string[] | undefined>;
  children: ComponentChildren;
}

export function PageLink({ page, rest, query, children }: LinkProps) {
  if (!known.has(page) || !holdsView(page, rest)) return <>{children}</>;
  return <a href={address(rest === undefined ? page : `${page}/${rest}`, query)}>{children}</a>;
}
