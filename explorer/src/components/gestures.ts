// Listening to the wheel and to fingers on a drawing that zooms and moves. What they do, each drawing says.

interface Gestures {
  wheel: (event: WheelEvent) => void;
  down: (event: PointerEvent) => void;
  move: (event: PointerEvent) => void;
  up: (event: PointerEvent) => void;
}

/** Returns what ends the listening. A finger may leave the drawing while it moves, so that the window is listened to. */
export function listenToGestures(element: HTMLElement, { wheel, down, move, up }: Gestures): () => void {
  element.addEventListener("wheel", wheel, { passive: false });
  element.addEventListener("pointerdown", down);
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", up);
  window.addEventListener("pointercancel", up);
  return () => {
    element.removeEventListener("wheel", wheel);
    element.removeEventListener("pointerdown", down);
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", up);
  };
}
