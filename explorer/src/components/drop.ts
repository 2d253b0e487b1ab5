// A place on which a file may be dropped.
import { useState } from "preact/hooks";

/** `over`: whether something is held over the place; `take`: what is called with the first file that is let go there. */
export function useDrop(take: (file?: File | null) => void) {
  const [over, setOver] = useState(false);
  const onDragOver = (event: DragEvent) => {
    event.preventDefault();
    setOver(true);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer?.files[0]);
  };
  return { over, handlers: { onDragOver, onDragLeave: () => setOver(false), onDrop } };
}
