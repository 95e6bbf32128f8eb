package worker

// FlushRecords makes w flush each record by itself, so that files of a few records
// have parts: gzip holds back tens of kilobytes otherwise.
func FlushRecords(w *Worker) { w.flush = true }
