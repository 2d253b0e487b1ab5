// The frame around every page: navigation, the page of the address, and where the focus goes.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useErrorBoundary, useRef } from "preact/hooks";
import { isLive, useAnswer } from "./api";
import { Header } from "./components/header";
import { EmptyState } from "./components/states";
import { useLost } from "./connection";
import { PAGES, shownPages } from "./pages";
import { address, useRoute } from "./router";

export function App() {
  const route = useRoute();
  const [first = "", ...others] = route.path.split("/");
  const pages = shownPages();
  const home = pages.find((candidate) => candidate.link) ?? PAGES[0]!;
  const page = pages.find((candidate) => candidate.path === (first || home.path));
  const main = useRef<HTMLElement>(null);
  const { answer: about, again: lookAgain } = useAnswer("/about");
  const shown = useRef(route.path);
  useEffect(() => {
    if (shown.current === route.path) return;
    shown.current = route.path;
    main.current?.focus({ preventScroll: true }); // who reads by ear hears the new page
    window.scrollTo(0, 0);
    lookAgain(); // there may be more runs by now
  }, [route.path]);
  useTitle(main, page?.title);
  const Content = page?.component;
  const skip = (event: Event) => {
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Guarded what="The head of the page">
        <Header pages={pages} page={page} home={home} about={about} />
      </Guarded>
      <Trouble version={about?.version} />
      <main id="main" ref={main} tabIndex={-1}>
        {Content ? (
          <Guarded key={route.path} what="This page">
            <Content rest={others.join("/")} />
          </Guarded>
        ) : (
          <EmptyState title={isLive() ? "There is no such page." : "This page is not in this bundle."}>
            <a href={address(home.path)}>Go to {home.title}</a>
          </EmptyState>
        )}
      </main>
    </>
  );
}

/** A part that cannot be drawn says so, and all others stay within reach. */
function Guarded({ what, children }: { what: string; children: ComponentChildren }) {
  const [error, again] = useErrorBoundary();
  if (!error) return <>{children}</>;
  return (
    <div class="state error" role="alert">
      <p>
        {what} cannot be shown: {String(error.message ?? error)}. That is a fault of the explorer, and nothing is lost.
      </p>
      <button type="button" onClick={again}>
        Try again
      </button>
    </div>
  );
}

/** What is wrong with the whole page: its server does not answer, or is another one by now. */
function Trouble({ version }: { version?: string }) {
  const lost = useLost();
  const first = useRef<string | undefined>(undefined);
  if (version && !first.current) first.current = version;
  if (lost) {
    return (
      <p class="trouble" role="alert">
        The server of the explorer does not answer. What is shown here may be old; the page looks for the server every two
        seconds.
      </p>
    );
  }
  if (version && version !== first.current) {
    return (
      <p class="trouble" role="alert">
        The explorer was updated: this page is of version {first.current}, its server of {version}.{" "}
        <button type="button" onClick={() => window.location.reload()}>
          Load the page again
        </button>
      </p>
    );
  }
  return null;
}

const LONGEST_TITLE = 120; // characters

/** The window is called as the heading of what it shows, so that several of them can be told apart. */
function useTitle(main: RefObject<HTMLElement | null>, usual?: string): void {
  useEffect(() => {
    const update = () => {
      const heading = main.current?.querySelector("h1")?.textContent?.slice(0, LONGEST_TITLE) || usual;
      const title = heading ? `${heading} · zoolens` : "zoolens";
      if (document.title !== title) document.title = title;
    };
    update();
    const observer = new MutationObserver(update);
    observer.observe(main.current!, { subtree: true, childList: true, characterData: true });
    return () => observer.disconnect();
  }, [usual]);
}
