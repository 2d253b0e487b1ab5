// The pages of the explorer. To add one, write a file beside this one and put it into the list.
import type { ComponentType } from "preact";
import { holds, isLive } from "../api";
import { HomePage } from "./home";
import { later } from "./later";
import { ModelsPage } from "./models";
import { RunsPage } from "./runs";

/** What somebody wants who looks for a page. */
export const GROUPS = ["Look", "Compare", "Understand", "Serve", "Train"] as const;
export type Group = (typeof GROUPS)[number];

export interface Page {
  /** The first part of the address: "models" is at #/models. What follows is given to the page as `rest`. */
  path: string;
  /** The title of the window; what a page shows may set another. */
  title: string;
  /** Where it stands in the navigation. */
  group: Group;
  /** The word in the navigation; a page without one is reached by links alone. */
  link?: string;
  /** What one finds there, for the search. */
  about?: string;
  /** What it asks first: a bundle that has it shows the page. A page without one needs the server. */
  needs?: string;
  /** Whether it follows the dataset that is chosen at the head. */
  follows?: true;
  component: ComponentType<PageProps>;
}

export interface PageProps {
  /** What follows the page's own path in the address: "1a2b" of #/runs/1a2b; empty if nothing does. */
  rest: string;
}

export const PAGES: Page[] = [
  { path: "home", title: "Home", group: "Look", link: "Home", about: "what is good, what changed, what to do next", follows: true, component: HomePage },
  { path: "models", title: "Models", group: "Look", link: "Models", about: "all models of zoos and store", needs: "/runs/{run}", follows: true, component: ModelsPage },
  { path: "model", title: "Model", group: "Look", needs: "/model/{ref}", follows: true, component: later("ModelPage") },
  { path: "runs", title: "Runs", group: "Look", link: "Runs", about: "all evaluations", needs: "/runs/{run}", follows: true, component: RunsPage },
  { path: "run", title: "Run", group: "Look", needs: "/runs/{run}", component: later("RunPage") },
  { path: "live", title: "Live", group: "Look", link: "Live", about: "try models on a picture or a text", component: later("LivePage") },
  { path: "reports", title: "Reports", group: "Look", link: "Reports", about: "pages of figures, charts and notes, to be sent", needs: "/reports/{id}", component: later("ReportsPage") },
  { path: "folder", title: "A folder of models", group: "Look", component: later("FolderPage") },
  { path: "choose", title: "Choose", group: "Compare", link: "Choose", about: "which model to take; the query language", needs: "/choose", follows: true, component: later("ChoosePage") },
  { path: "compare", title: "Compare", group: "Compare", link: "Compare", about: "two runs on the same inputs", needs: "/comparison", follows: true, component: later("ComparePage") },
  { path: "networks", title: "Two networks", group: "Compare", needs: "/networks", component: later("NetworksPage") },
  { path: "traces", title: "Traces", group: "Understand", link: "Traces", about: "where the time goes", needs: "/traces/{run}", component: later("TracesPage") },
  { path: "diverge", title: "Diverge", group: "Understand", link: "Diverge", about: "at which layer two environments part", needs: "/divergences/{id}", component: later("DivergePage") },
  { path: "audit", title: "Audit", group: "Understand", link: "Audit", about: "claims and names against facts", needs: "/audits/{id}", component: later("AuditPage") },
  { path: "services", title: "Services", group: "Serve", link: "Services", about: "what was served, and why it switched", component: later("ServicesPage") },
  { path: "endpoints", title: "Endpoints", group: "Serve", link: "Endpoints", about: "which model answers behind an address", component: later("EndpointsPage") },
  { path: "fleet", title: "Fleet", group: "Serve", link: "Fleet", about: "machines, their jobs, models on every kind of machine", component: later("FleetPage") },
  { path: "jobs", title: "Jobs", group: "Serve", link: "Jobs", about: "evaluate models; what runs and what ended", component: later("JobsPage") },
  { path: "api", title: "API", group: "Serve", link: "API", about: "everything as JSON", component: later("ApiPage") },
  { path: "studies", title: "Crosstrain", group: "Train", link: "Crosstrain", about: "one recipe in several frameworks", needs: "/study", component: later("StudiesPage") },
];

/** The pages that there is something for: all of them, or those of a bundle. */
export function shownPages(): Page[] {
  return isLive() ? PAGES : PAGES.filter((page) => page.needs && holds(page.needs));
}
