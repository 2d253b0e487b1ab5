// Whether the window is as narrow as a phone's; style.css has the same limit.
import { useEffect, useState } from "preact/hooks";

const LIMIT = "(max-width: 800px)";

export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => window.matchMedia(LIMIT).matches);
  useEffect(() => {
    const query = window.matchMedia(LIMIT);
    const update = () => setNarrow(query.matches);
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, []);
  return narrow;
}
