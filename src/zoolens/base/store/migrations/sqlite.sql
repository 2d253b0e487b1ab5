CREATE TABLE zoolens_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT zoolens_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE models (
	fingerprint TEXT NOT NULL, 
	ref TEXT NOT NULL, 
	format TEXT NOT NULL, 
	manifest JSON NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, 
	PRIMARY KEY (fingerprint)
);

CREATE TABLE datasets (
	fingerprint TEXT NOT NULL, 
	name TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	details JSON NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, 
	PRIMARY KEY (fingerprint)
);

CREATE TABLE stacks (
	fingerprint TEXT NOT NULL, 
	runtime TEXT NOT NULL, 
	identity JSON NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, 
	PRIMARY KEY (fingerprint)
);

CREATE TABLE locks (
	fingerprint TEXT NOT NULL, 
	content JSON NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, 
	PRIMARY KEY (fingerprint)
);

CREATE TABLE aliases (
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, checksum BIGINT, 
	PRIMARY KEY (kind, name, fingerprint)
);

CREATE TABLE runs (
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	model TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	stack TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	lock TEXT NOT NULL, 
	resolved JSON NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, kind TEXT DEFAULT 'evaluation' NOT NULL, 
	PRIMARY KEY (seq), 
	CONSTRAINT one_run_per_key UNIQUE (model, dataset, stack, attempt), 
	UNIQUE (id), 
	FOREIGN KEY(model) REFERENCES models (fingerprint), 
	FOREIGN KEY(dataset) REFERENCES datasets (fingerprint), 
	FOREIGN KEY(stack) REFERENCES stacks (fingerprint), 
	FOREIGN KEY(lock) REFERENCES locks (fingerprint)
);

CREATE INDEX runs_by_dataset ON runs (dataset);

CREATE INDEX runs_by_stack ON runs (stack);

CREATE TABLE stages (
	run_id TEXT NOT NULL, 
	stage TEXT NOT NULL, 
	state TEXT NOT NULL, 
	error TEXT, 
	details JSON NOT NULL, 
	updated DATETIME NOT NULL, checksum BIGINT, facts BIGINT, 
	PRIMARY KEY (run_id, stage), 
	CONSTRAINT known_state CHECK (state IN ('done', 'failed')), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE TABLE observations (
	seq INTEGER NOT NULL, 
	run_id TEXT NOT NULL, 
	stage TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	value DOUBLE, 
	low DOUBLE, 
	high DOUBLE, 
	unit TEXT NOT NULL, 
	n BIGINT, 
	provenance TEXT NOT NULL, 
	details JSON NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, 
	PRIMARY KEY (seq), 
	CONSTRAINT one_observation_per_scope UNIQUE (run_id, metric, scope), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE INDEX observations_by_metric ON observations (metric, scope);

CREATE TABLE parts (
	run_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	part INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	rows BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	created DATETIME NOT NULL, checksum BIGINT, 
	PRIMARY KEY (run_id, kind, part), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	UNIQUE (name)
);

CREATE TABLE about (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);

CREATE TABLE changes (
	seq INTEGER NOT NULL, 
	run_id TEXT NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE TRIGGER observations_refuse_update BEFORE UPDATE ON observations BEGIN SELECT RAISE(ABORT, 'observations are append-only'); END;

CREATE TRIGGER observations_refuse_delete BEFORE DELETE ON observations BEGIN SELECT RAISE(ABORT, 'observations are append-only'); END;

CREATE TRIGGER observations_refuse_replace BEFORE INSERT ON observations WHEN EXISTS (SELECT 1 FROM observations WHERE (run_id = NEW.run_id AND metric = NEW.metric AND scope = NEW.scope) OR seq = NEW.seq) BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER parts_refuse_update BEFORE UPDATE ON parts BEGIN SELECT RAISE(ABORT, 'parts are append-only'); END;

CREATE TRIGGER parts_refuse_delete BEFORE DELETE ON parts BEGIN SELECT RAISE(ABORT, 'parts are append-only'); END;

CREATE TRIGGER parts_refuse_replace BEFORE INSERT ON parts WHEN EXISTS (SELECT 1 FROM parts WHERE run_id = NEW.run_id AND kind = NEW.kind AND part = NEW.part) BEGIN SELECT RAISE(IGNORE); END;

CREATE TABLE studies (
	seq INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	frameworks JSON NOT NULL, 
	details JSON NOT NULL, 
	removed BOOLEAN NOT NULL, 
	created DATETIME NOT NULL, 
	checksum BIGINT, 
	PRIMARY KEY (seq)
);

CREATE INDEX studies_by_name ON studies (name);

CREATE TABLE trials (
	seq INTEGER NOT NULL, 
	study TEXT NOT NULL, 
	name TEXT NOT NULL, 
	hyperparameters JSON NOT NULL, 
	notes JSON NOT NULL, 
	details JSON NOT NULL, 
	sides INTEGER NOT NULL, 
	created DATETIME NOT NULL, 
	checksum BIGINT, 
	PRIMARY KEY (seq)
);

CREATE INDEX trials_by_study ON trials (study, name);

CREATE TABLE trial_sides (
	trial INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	framework TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	error TEXT, 
	checksum BIGINT, 
	PRIMARY KEY (trial, place), 
	FOREIGN KEY(trial) REFERENCES trials (seq), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE INDEX trial_sides_by_run ON trial_sides (run_id);

CREATE INDEX runs_by_kind ON runs (kind);

CREATE TRIGGER studies_refuse_update BEFORE UPDATE ON studies BEGIN SELECT RAISE(ABORT, 'studies are append-only'); END;

CREATE TRIGGER studies_refuse_delete BEFORE DELETE ON studies BEGIN SELECT RAISE(ABORT, 'studies are append-only'); END;

CREATE TRIGGER studies_refuse_replace BEFORE INSERT ON studies WHEN EXISTS (SELECT 1 FROM studies WHERE seq = NEW.seq) BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER trials_refuse_update BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;

CREATE TRIGGER trials_refuse_delete BEFORE DELETE ON trials BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;

CREATE TRIGGER trials_refuse_replace BEFORE INSERT ON trials WHEN EXISTS (SELECT 1 FROM trials WHERE seq = NEW.seq) BEGIN SELECT RAISE(IGNORE); END;

CREATE TRIGGER trial_sides_refuse_update BEFORE UPDATE ON trial_sides BEGIN SELECT RAISE(ABORT, 'trial_sides are append-only'); END;

CREATE TRIGGER trial_sides_refuse_delete BEFORE DELETE ON trial_sides BEGIN SELECT RAISE(ABORT, 'trial_sides are append-only'); END;

CREATE TRIGGER trial_sides_refuse_replace BEFORE INSERT ON trial_sides WHEN EXISTS (SELECT 1 FROM trial_sides WHERE trial = NEW.trial AND place = NEW.place) BEGIN SELECT RAISE(IGNORE); END;

CREATE TABLE agents (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	facts JSON NOT NULL, 
	doing JSON NOT NULL, 
	lease DOUBLE NOT NULL, 
	started DOUBLE NOT NULL, 
	beat DOUBLE NOT NULL, 
	owner TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);

CREATE TABLE drivers (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	command TEXT NOT NULL, 
	lease DOUBLE NOT NULL, 
	started DOUBLE NOT NULL, 
	beat DOUBLE NOT NULL, 
	ended DOUBLE, 
	cancelled_by TEXT, 
	PRIMARY KEY (id)
);

CREATE TABLE jobs (
	id TEXT NOT NULL, 
	driver TEXT NOT NULL, 
	title TEXT NOT NULL, 
	model TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	runtimes JSON NOT NULL, 
	kind TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	node TEXT NOT NULL, 
	state TEXT NOT NULL, 
	attempts JSON NOT NULL, 
	given DOUBLE NOT NULL, 
	started DOUBLE, 
	ended DOUBLE, 
	runs JSON NOT NULL, 
	error TEXT NOT NULL, 
	log JSON NOT NULL, 
	cancelled_by TEXT, 
	PRIMARY KEY (id)
);

CREATE INDEX jobs_by_driver ON jobs (driver);

CREATE INDEX jobs_by_time ON jobs (given);

CREATE INDEX jobs_by_model ON jobs (model);

CREATE TABLE passes (
	id TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	started DOUBLE NOT NULL, 
	ended DOUBLE, 
	content JSON NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX passes_by_plan ON passes ("plan", started);

CREATE TABLE figures (
	run_id TEXT NOT NULL, 
	text TEXT NOT NULL, 
	checksum BIGINT, 
	PRIMARY KEY (run_id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);

CREATE TABLE reports (
	seq INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	title TEXT NOT NULL, 
	content JSON NOT NULL, 
	removed BOOLEAN NOT NULL, 
	created DATETIME NOT NULL, 
	checksum BIGINT, 
	PRIMARY KEY (seq)
);

CREATE INDEX reports_by_name ON reports (name);
