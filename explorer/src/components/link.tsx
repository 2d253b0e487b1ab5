// Links between pages. What a page is about may have a page of its own, or not yet: then the name stands alone.
import type { ComponentChildren } from "preact";
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
  if (!known.has(page)) return <>{children}</>;
  return <a href={address(rest === undefined ? page : `${page}/${rest}`, query)}>{children}</a>;
}
