// The pages of the explorer. To add one, write a file beside this one and put it into the list.
import type { ComponentType } from "preact";
import { holds, isLive } from "../api";
import { ApiPage } from "./api";
import { AuditPage } from "./audit";
import { ChoosePage } from "./choose";
import { ComparePage } from "./compare";
import { DivergePage } from "./diverge";
import { FleetPage } from "./fleet";
import { JobsPage } from "./jobs";
import { LivePage } from "./live";
import { ModelPage } from "./model";
import { ModelsPage } from "./models";
import { NetworksPage } from "./networks";
import { RunPage } from "./run";
import { RunsPage } from "./runs";
import { ServicesPage } from "./services";
import { StudiesPage } from "./studies";
import { TracesPage } from "./traces";

export interface Page {
  /** The first part of the address: "models" is at #/models. What follows is given to the page as `rest`. */
  path: string;
  /** The title of the window; what a page shows may set another. */
  title: string;
  /** The word in the navigation; a page without one is reached by links alone. */
  link?: string;
  /** What it asks first: a bundle that has it shows the page. A page without one needs the server. */
  needs?: string;
  component: ComponentType<PageProps>;
}

export interface PageProps {
  /** What follows the page's own path in the address: "1a2b" of #/runs/1a2b; empty if nothing does. */
  rest: string;
}

export const PAGES: Page[] = [
  { path: "models", title: "Models", link: "Models", needs: "/runs/{run}", component: ModelsPage },
  { path: "model", title: "Model", needs: "/model/{ref}", component: ModelPage },
  { path: "networks", title: "Two networks", needs: "/networks", component: NetworksPage },
  { path: "choose", title: "Choose", link: "Choose", needs: "/choose", component: ChoosePage },
  { path: "runs", title: "Runs", link: "Runs", needs: "/runs/{run}", component: RunsPage },
  { path: "run", title: "Run", needs: "/runs/{run}", component: RunPage },
  { path: "compare", title: "Compare", link: "Compare", needs: "/comparison", component: ComparePage },
  { path: "diverge", title: "Diverge", link: "Diverge", needs: "/divergences/{id}", component: DivergePage },
  { path: "audit", title: "Audit", link: "Audit", needs: "/audits/{id}", component: AuditPage },
  { path: "services", title: "Services", link: "Services", component: ServicesPage },
  { path: "live", title: "Live", link: "Live", component: LivePage },
  { path: "traces", title: "Traces", link: "Traces", needs: "/traces/{run}", component: TracesPage },
  { path: "studies", title: "Crosstrain", link: "Crosstrain", needs: "/study", component: StudiesPage },
  { path: "fleet", title: "Fleet", link: "Fleet", component: FleetPage },
  { path: "jobs", title: "Jobs", link: "Jobs", component: JobsPage },
  { path: "api", title: "API", link: "API", component: ApiPage },
];

/** The pages that there is something for: all of them, or those of a bundle. */
export function shownPages(): Page[] {
  return isLive() ? PAGES : PAGES.filter((page) => page.needs && holds(page.needs));
}
