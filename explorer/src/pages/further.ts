// The pages of the second script: those that are seldom opened first.
export { ApiPage } from "./api";
export { AuditPage } from "./audit";
export { ChoosePage } from "./choose";
export { ComparePage } from "./compare";
export { DivergePage } from "./diverge";
export { EndpointsPage } from "./endpoints";
export { FleetPage } from "./fleet";
export { FolderPage } from "./folder";
export { JobsPage } from "./jobs";
export { LivePage } from "./live";
export { ModelPage } from "./model";
export { NetworksPage } from "./networks";
export { ReportsPage } from "./reports";
export { RunPage } from "./run";
export { ServicesPage } from "./services";
export { StudiesPage } from "./studies";
export { TracesPage } from "./traces";
