// Pictures that come from the clipboard or from a camera. Nothing of a camera leaves the page but the picture that is taken.
import { useEffect, useRef, useState } from "preact/hooks";

/** The image among what was pasted; none where a text is written into a field. */
export function imageIn(items: Iterable<{ kind: string; type: string; getAsFile(): File | null }>): File | null {
  for (const item of items) if (item.kind === "file" && item.type.startsWith("image/")) return item.getAsFile();
  return null;
}

/** Call with an image that is pasted anywhere on the page. */
export function usePastedImage(onImage: (file: File) => void): void {
  const latest = useRef(onImage);
  latest.current = onImage;
  useEffect(() => {
    const pasted = (event: ClipboardEvent) => {
      const image = imageIn(event.clipboardData?.items ?? []);
      if (!image) return;
      event.preventDefault();
      latest.current(new File([image], "pasted image", { type: image.type }));
    };
    window.addEventListener("paste", pasted);
    return () => window.removeEventListener("paste", pasted);
  }, []);
}

export function Camera({ onPicture }: { onPicture: (file: File) => void }) {
  const [stream, setStream] = useState<MediaStream>();
  const [problem, setProblem] = useState("");
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    if (video.current && stream) video.current.srcObject = stream;
    return () => stream?.getTracks().forEach((track) => track.stop());
  }, [stream]);
  const open = async () => {
    setProblem("");
    try {
      if (!navigator.mediaDevices) throw new Error("browsers allow it on this machine and over TLS alone");
      setStream(await navigator.mediaDevices.getUserMedia({ video: true }));
    } catch (reason) {
      setProblem(`The camera cannot be used: ${reason instanceof Error ? reason.message : String(reason)}.`);
    }
  };
  const take = () => {
    const seen = video.current;
    if (!seen?.videoWidth) return;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [seen.videoWidth, seen.videoHeight];
    canvas.getContext("2d")!.drawImage(seen, 0, 0);
    canvas.toBlob((picture) => picture && onPicture(new File([picture], "camera", { type: "image/png" })), "image/png");
  };
  if (!stream) {
    return (
      <p class="camera">
        <button type="button" onClick={() => void open()}>
          Use the camera
        </button>
        {problem && (
          <span class="problem" role="alert">
            {" "}
            {problem}
          </span>
        )}
      </p>
    );
  }
  return (
    <div class="camera">
      <video ref={video} autoPlay muted playsInline aria-label="What the camera sees" />
      <p class="bar">
        <button type="button" class="primary" onClick={take}>
          Take the picture
        </button>
        <button type="button" onClick={() => setStream(undefined)}>
          Close the camera
        </button>
      </p>
    </div>
  );
}
