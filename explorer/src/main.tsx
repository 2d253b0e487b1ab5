import { render } from "preact";
import { setSource } from "./api";
import { App } from "./app";
import { bundleIndex, bundleSource } from "./bundle";
import { registerPages } from "./components/link";
import { shownPages } from "./pages";
import "./style.css";
import "./showing.css";

const bundle = bundleIndex();
if (bundle) setSource(bundleSource(bundle));
registerPages(shownPages().map((page) => page.path));
render(<App />, document.getElementById("app")!);
