// The frame around every page: navigation, the page of the address, and where the focus goes.
import { useEffect, useRef } from "preact/hooks";
import { useAnswer } from "./api";
import { EmptyState } from "./components/states";
import { PAGES } from "./pages";
import { address, useRoute } from "./router";

export function App() {
  const route = useRoute();
  const [first = "", ...others] = route.path.split("/");
  const page = PAGES.find((candidate) => candidate.path === (first || PAGES[0]!.path));
  const main = useRef<HTMLElement>(null);
  const about = useAnswer("/about").answer;
  const shown = useRef(page);
  useEffect(() => {
    document.title = page ? `${page.title} · zoolens` : "zoolens";
    if (shown.current !== page) main.current?.focus(); // who reads by ear hears the new page
    shown.current = page;
  }, [page]);
  const Content = page?.component;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={address(PAGES[0]!.path)}>
          zoolens
        </a>
        <nav aria-label="Pages">
          {PAGES.filter((candidate) => candidate.link).map((candidate) => (
            <a href={address(candidate.path)} aria-current={candidate === page ? "page" : undefined}>
              {candidate.link}
            </a>
          ))}
        </nav>
        {about && (
          <span class="about">
            <bdi>{about.store}</bdi> · {about.runs.toLocaleString("en")} {about.runs === 1 ? "run" : "runs"}
          </span>
        )}
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {Content ? (
          <Content rest={others.join("/")} />
        ) : (
          <EmptyState title="There is no such page.">
            <a href={address(PAGES[0]!.path)}>See the models</a>
          </EmptyState>
        )}
      </main>
    </>
  );
}
