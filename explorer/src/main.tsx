import { render } from "preact";
import { setSource } from "./api";
import { App } from "./app";
import { bundleIndex, bundleSource } from "./bundle";
import { registerPages } from "./components/link";
import { shownPages } from "./pages";
import { loadFurtherPages } from "./pages/later";
import "./style.css";
import "./showing.css";

const SOON = 500; // milliseconds

const bundle = bundleIndex();
if (bundle) setSource(bundleSource(bundle));
registerPages(shownPages().map((page) => page.path));
render(<App />, document.getElementById("app")!);

// The other pages, once this one is there: they are then shown at once, also while the server does not answer.
const loadOthers = () => setTimeout(() => (document.querySelector("main .loading") ? loadOthers() : loadFurtherPages()), SOON);
window.addEventListener("load", loadOthers);
