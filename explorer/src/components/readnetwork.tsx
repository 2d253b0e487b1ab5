// A network that is not in the store yet: why, and the job that reads it.
import { JobButton } from "./jobbutton";
import { EmptyState } from "./states";

interface Props {
  model: string;
  reason: string;
  /** Whether a job can read it. */
  readable: boolean;
  /** The parameter of the address that holds the job's id. */
  parameter: string;
  onRead: () => void;
}

export function ReadNetwork({ model, reason, readable, parameter, onRead }: Props) {
  return (
    <EmptyState title={`The network of ${model} is not known here.`}>
      <p>
        <bdi>{reason}</bdi>
      </p>
      {readable && (
        <>
          <p>
            It is read from its source, without weights, in a process of its own; on the command line:{" "}
            <code>
              <bdi>{`zoolens cost ${model}`}</bdi>
            </code>
          </p>
          <JobButton label="Read this network" kind="network" parameters={{ model }} name={parameter} onEnd={onRead} />
        </>
      )}
    </EmptyState>
  );
}
