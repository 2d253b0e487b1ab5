// What both scripts of the explorer use: `pages.js`, which has most pages, takes these from `explorer.js` instead of having
// copies of its own, since several of them keep state. vite.config.js reads the imports of this file.
import * as preact from "preact";
import * as hooks from "preact/hooks";
import * as jsx from "preact/jsx-runtime";
import * as api from "./api";
import * as figure from "./components/figure";
import * as filters from "./components/filters";
import * as job from "./components/job";
import * as link from "./components/link";
import * as listing from "./components/listing";
import * as states from "./components/states";
import * as table from "./components/table";
import * as connection from "./connection";
import * as datasets from "./datasets";
import * as figures from "./figures";
import * as handover from "./handover";
import * as jobs from "./jobs";
import * as narrow from "./narrow";
import * as router from "./router";

export const SHARED = {
  preact, hooks, jsx, api, figure, filters, job, link, listing, states, table, connection, datasets, figures, handover, jobs, narrow, router,
};
