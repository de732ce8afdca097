// Package atomicfile publishes a file or a folder whole or not at all.
//
// # Vocabulary
//
// To publish is to give finished bytes their final name in one step that a reader, a crash or a second writer sees as
// done or not done. Durable means that it survives a power cut: the bytes are synced before the name changes, and the
// folder that holds the name is synced after it (a rename alone is not durable; tailscale's and renameio's atomic files
// leave this step out).
//
// # Order of calls
//
// For a file: WriteFile, nothing else. For a folder: write everything into a folder beside the final one (out.partial
// beside out, so that both are on one file system), then PublishDir. SyncDir is for a caller who has created, renamed or
// removed entries itself and wants that to last, such as a journal that records finished shards.
//
// # What it refuses
//
// WriteFile replaces a regular file and nothing else: a symbolic link at the path is refused, not followed and not
// replaced, because in a Hugging Face cache it leads into blobs/, which other snapshots share. PublishDir never replaces
// anything, not even an empty folder, not even when the name appears between the check and the rename.
//
// It knows nothing about checkpoints, keeps no journal and takes no locks: two writers of one partial folder are the
// caller's mistake.
//
// # Concurrency
//
// All functions may be called from any goroutine. Concurrent WriteFile calls on one path leave the bytes of one of
// them; of concurrent PublishDir calls to one name exactly one succeeds.
package atomicfile
