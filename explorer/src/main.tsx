import { render } from "preact";
import { App } from "./app";
import { registerPages } from "./components/link";
import { PAGES } from "./pages";
import "./style.css";

registerPages(PAGES.map((page) => page.path));
render(<App />, document.getElementById("app")!);
