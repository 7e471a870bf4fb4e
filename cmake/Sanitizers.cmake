# AddressSanitizer with UndefinedBehaviorSanitizer, and ThreadSanitizer: scripts/test-sanitizers.sh runs the tests with
# them. What they are not to report is in tests/sanitizers.

if(ADAPTDL_SANITIZE)
  # Line numbers are all that their reports need, and -O1 is quicker to compile.
  add_compile_options(-fsanitize=${ADAPTDL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -g1)
  add_link_options(-fsanitize=${ADAPTDL_SANITIZE})
  # GCC 12 takes std::regex (GCC bug 105562) and LibTorch's DataLoader for uninitialised in sanitized code: false
  # alarms, for targets that use them.
  # The fuzzers are built by Clang, which has no such warning.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(ADAPTDL_NO_FALSE_ALARMS -Wno-maybe-uninitialized)
  endif()
endif()

# The tests that ThreadSanitizer leaves out: those in which gRPC runs. Its locks are Abseil's, made of futexes, and the
# packaged Abseil is not instrumented: ThreadSanitizer does not see which thread hands over to which there, and reports
# races in correct code. AddressSanitizer runs them all.
set(ADAPTDL_NOT_UNDER_TSAN
  allocator_loop_test
  allocator_program_test
  autoscaler_program_test
  autoscaler_service_test
  chaos_test
  cli_command_test
  cli_run_test
  client_test
  clock_step_test
  dashboard_test
  elastic_control_loader_test
  elastic_control_test
  example_programs_test
  failover_test
  integration_backup_test
  integration_bad_job_test
  integration_bandwidth_test
  integration_drain_test
  integration_fault_test
  integration_hang_test
  integration_http_job_test
  integration_kubernetes_faults_test
  integration_kubernetes_rescale_points_test
  integration_kubernetes_scale_test
  integration_kubernetes_autoscaling_test integration_kubernetes_test
  integration_kubernetes_two_operators_test
  integration_network_fault_test
  integration_python_job_test
  integration_queue_test
  integration_rescale_test
  integration_storage_fault_test
  messages_test  # Protobuf's maps are laid out otherwise in sanitized code than in the packaged library.
  mnist_programs_test
  rpc_test
  service_server_test
  service_tls_server_test
  store_crash_test
  supervisor_history_calls_test
  supervisor_http_test
  supervisor_program_test
  supervisor_rescale_restart_test
  supervisor_rescale_test
  supervisor_security_test
  supervisor_service_test
  supervisor_streams_test
  supervisor_text_test
  supervisor_traces_test
  supervisor_watch_test
  supervisor_web_test
  worker_link_test
  worker_process_test)
