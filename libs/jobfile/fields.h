// The fields that a job file may hold, level by level: those of AdaptDLJob, and all those of a Kubernetes pod
// template, of which most mean nothing to a node worker.

#ifndef ADAPTDL_LIBS_JOBFILE_FIELDS_H_
#define ADAPTDL_LIBS_JOBFILE_FIELDS_H_

#include "absl/types/span.h"
#include "libs/jobfile/checker.h"

namespace adaptdl::jobfile {

absl::Span<const KnownField> RootFields();
absl::Span<const KnownField> MetadataFields();
absl::Span<const KnownField> SpecFields();
absl::Span<const KnownField> PythonFields();
absl::Span<const KnownField> DataSetFields();
absl::Span<const KnownField> TemplateFields();
absl::Span<const KnownField> PodFields();
absl::Span<const KnownField> ContainerFields();
absl::Span<const KnownField> EnvFields();
absl::Span<const KnownField> ResourcesFields();
absl::Span<const KnownField> AffinityFields();
absl::Span<const KnownField> NodeAffinityFields();
absl::Span<const KnownField> NodeSelectorFields();
absl::Span<const KnownField> NodeSelectorTermFields();
absl::Span<const KnownField> NodeRequirementFields();
absl::Span<const KnownField> TolerationFields();

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_FIELDS_H_
