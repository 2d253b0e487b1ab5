// What has the focus stays in view while its surroundings grow.
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Something that arrives late, such as a chart, makes a section longer and pushes what stands below it out of the window.
 * Whoever went there meanwhile, with the keyboard, still sees where he is; who has scrolled away is left alone. `subject`:
 * what the section is about. */
export function useFocusInView(section: RefObject<HTMLElement | null>, subject: string): void {
  useEffect(() => {
    const shown = section.current;
    if (!shown) return;
    let height = shown.offsetHeight;
    let wasSeen = true;
    const look = () => {
      if (shown.offsetHeight === height) wasSeen = isSeen(document.activeElement);
    };
    const observer = new ResizeObserver(() => {
      height = shown.offsetHeight;
      const focused = document.activeElement;
      if (wasSeen && shown.contains(focused)) focused?.scrollIntoView({ block: "nearest" });
    });
    const begin = () => (wasSeen = true); // the browser shows what gets the focus
    observer.observe(shown);
    shown.addEventListener("focusin", begin);
    addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      shown.removeEventListener("focusin", begin);
      removeEventListener("scroll", look);
    };
  }, [subject]);
}

function isSeen(element: Element | null): boolean {
  const box = element?.getBoundingClientRect();
  return box !== undefined && box.bottom > 0 && box.top < innerHeight;
}
