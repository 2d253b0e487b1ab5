// Pages of the second script, which is loaded with the first of them.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { ErrorState, Loading } from "../components/states";
import { useReturns } from "../connection";
import { SHARED } from "../shared";
import type { PageProps } from "./index";

type Pages = typeof import("./further");

interface Scripts {
  zoolensShared?: typeof SHARED;
  zoolensPages?: Pages;
}
const scripts = globalThis as Scripts;

let loading: Promise<Pages> | undefined;

function load(): Promise<Pages> {
  loading ??= new Promise((resolve, reject) => {
    scripts.zoolensShared = SHARED;
    const script = document.createElement("script");
    script.src = "pages.js";
    script.onload = () => (scripts.zoolensPages ? resolve(scripts.zoolensPages) : reject(new Error("pages.js is damaged")));
    script.onerror = () => {
      loading = undefined; // the next look tries again
      reject(new Error("pages.js cannot be loaded"));
    };
    document.head.append(script);
  });
  return loading;
}

/** Load the script before somebody asks for one of its pages. Where that fails, the page that needs it says so. */
export function loadFurtherPages(): void {
  load().catch(() => undefined);
}

/** The page of this name, as soon as its script is here. */
export function later(name: keyof Pages): ComponentType<PageProps> {
  return function Later(props: PageProps) {
    const [pages, setPages] = useState(scripts.zoolensPages);
    const [error, setError] = useState<ApiError>();
    const returns = useReturns();
    useEffect(() => {
      if (pages) return;
      setError(undefined);
      load().then(
        (loaded) => setPages(() => loaded),
        (problem: unknown) => setError(new ApiError(String(problem), 1)),
      );
    }, [returns]);
    if (error) return <ErrorState error={error} />;
    const Page = pages?.[name] as ComponentType<PageProps> | undefined;
    return Page ? <Page {...props} /> : <Loading />;
  };
}
