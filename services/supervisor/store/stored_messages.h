// Which columns of the database hold encoded messages, and how to read one that may be damaged. Not
// thread-safe, as the database.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_STORED_MESSAGES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_STORED_MESSAGES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "services/supervisor/store/job_store.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {

struct StoredMessage {
  const char* table;
  const char* column;
  // Columns that name the row.
  std::vector<const char*> key;
  // An empty message of its type.
  const google::protobuf::Message* type;
  // SQL for the namespace, the name and the uid of the job that a row belongs to. Empty: it belongs to none.
  const char* job_columns;
};

// All but the answers of requests, which nobody but their own caller reads.
const std::vector<StoredMessage>& StoredMessages();
// It is one of them.
const StoredMessage& FindStoredMessage(absl::string_view table, absl::string_view column);

// Reads messages, and remembers which ones were damaged; what it could mend can be written back.
class MessageReader {
 public:
  // False: it can't be read, and `message` is empty. `row` says where it is (table, column, key, job).
  bool Read(DamagedRow row, const std::string& bytes, google::protobuf::Message* message);

  // Stores what was mended, in the transaction that is open, and keeps the bytes of what could not be in the
  // table "unreadable", with the wall time `now`; sets DamagedRow::is_new.
  absl::Status WriteBack(Database* database, absl::Time now);

  bool empty() const { return found_.empty(); }
  std::vector<DamagedRow> damaged() const;

 private:
  struct Found {
    DamagedRow row;
    // As they are now, if it was mended, else as they were.
    std::string bytes;
  };
  std::vector<Found> found_;
};

// Reads every message there is.
absl::Status ReadAllMessages(Database* database, MessageReader* reader);

// Removes the rows in which something can't be read, as `reader` has found, with all that belongs to them.
absl::Status RemoveUnreadable(Database* database, const MessageReader& reader);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_STORED_MESSAGES_H_
